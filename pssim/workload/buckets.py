"""Gradient buckets as PyTorch's DistributedDataParallel forms them, from its second iteration on.

In iteration 0 DDP records the order in which gradients arrive and then rebuilds its buckets in that
order: gradients join the open bucket until its bytes reach the limit (>=), and the bucket that
reaches it includes the gradient that did.  The limit is the cap, except that with no cap set the
first bucket closes at 1 MiB (and the others at 25 MiB), so that communication starts early.  DDP
keeps a separate open bucket for each dtype and device; here all gradients share one of each.
"""

from __future__ import annotations

from collections.abc import Sequence

from pssim.errors import ProfileError

__all__ = ["DEFAULT_CAP_BYTES", "DEFAULT_FIRST_CAP_BYTES", "GRADIENT_BYTES", "bucket_ranges"]

DEFAULT_FIRST_CAP_BYTES = 2**20
DEFAULT_CAP_BYTES = 25 * 2**20

GRADIENT_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}


def bucket_ranges(sizes_bytes: Sequence[int], cap_bytes: int | None) -> list[range]:
    """Which gradients, by place in the order of arrival, share each bucket.

    ``cap_bytes`` None is DDP's default, which is not the same as 25 MiB: see the module.
    """
    if cap_bytes is not None and cap_bytes < 0:
        raise ProfileError(f"bucket cap must be 0 bytes or more, it is {cap_bytes}")
    limit = DEFAULT_FIRST_CAP_BYTES if cap_bytes is None else cap_bytes
    ranges: list[range] = []
    start, filled = 0, 0
    for place, size in enumerate(sizes_bytes):
        filled += size
        if filled >= limit:
            ranges.append(range(start, place + 1))
            start, filled = place + 1, 0
            limit = DEFAULT_CAP_BYTES if cap_bytes is None else cap_bytes
    if start < len(sizes_bytes):
        ranges.append(range(start, len(sizes_bytes)))
    return ranges
