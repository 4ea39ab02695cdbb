"""The bucketing rule by itself; test_torch_ddp_buckets.py holds it against DDP."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pssim.errors import ProfileError
from pssim.workload.buckets import bucket_ranges

MIB = 2**20


def test_a_bucket_closes_once_its_size_reaches_the_cap() -> None:
    """Reaching it is enough, and the gradient that passes it still belongs to the bucket."""
    assert bucket_ranges([4, 4, 4, 9, 1], 8) == [range(2), range(2, 4), range(4, 5)]


def test_without_a_cap_the_first_bucket_closes_at_1_mib() -> None:
    """The others close at 25 MiB; a cap that is given holds for the first as well."""
    sizes = [MIB] * 27
    assert [len(places) for places in bucket_ranges(sizes, None)] == [1, 25, 1]
    assert [len(places) for places in bucket_ranges(sizes, 25 * MIB)] == [25, 2]


def test_gradients_of_no_bytes_still_make_a_bucket() -> None:
    """DDP reduces a bucket that is empty of bytes, too."""
    assert bucket_ranges([0, 0], 8) == [range(2)]


def test_no_gradients_make_no_bucket() -> None:
    assert bucket_ranges([], None) == []


def test_a_negative_cap_is_refused() -> None:
    with pytest.raises(ProfileError, match="bucket cap must be 0 bytes or more, it is -1"):
        bucket_ranges([4], -1)


@given(
    sizes=st.lists(st.integers(0, 40 * MIB), max_size=40),
    cap=st.one_of(st.none(), st.integers(0, 30 * MIB)),
)
def test_every_gradient_is_in_one_bucket_and_no_bucket_is_longer_than_it_must_be(
    sizes: list[int], cap: int | None
) -> None:
    """In order, without gaps; all but the last have reached their limit, with their last gradient only."""
    buckets = bucket_ranges(sizes, cap)
    assert [place for places in buckets for place in places] == list(range(len(sizes)))
    for index, places in enumerate(buckets):
        limit = cap if cap is not None else (MIB if index == 0 else 25 * MIB)
        filled = [sizes[place] for place in places]
        if index < len(buckets) - 1:
            assert sum(filled) >= limit
        assert len(filled) == 1 or sum(filled[:-1]) < limit
