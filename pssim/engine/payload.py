"""The null payload: version tags in the place of gradients and weights.

Engines stamp versions and measure staleness; schemes pass the tags on without looking.
"""

from __future__ import annotations

__all__ = ["Tag", "WeightsTag"]


class Tag:
    """A gradient of one bucket, and the version of that bucket's weights it was computed on."""

    __slots__ = ("bucket", "size_bytes", "version")

    def __init__(self, bucket: int, size_bytes: int, version: int) -> None:
        self.bucket = bucket
        self.size_bytes = size_bytes
        self.version = version

    def __repr__(self) -> str:
        return f"gradient of bucket {self.bucket} ({self.size_bytes} bytes, version {self.version})"


class WeightsTag:
    """The weights of some buckets, each with its version."""

    __slots__ = ("size_bytes", "versions")

    def __init__(self, versions: tuple[tuple[int, int], ...], size_bytes: int) -> None:
        self.versions = versions
        self.size_bytes = size_bytes

    def __repr__(self) -> str:
        return f"weights of {len(self.versions)} buckets ({self.size_bytes} bytes)"
