"""A link: latency and bandwidth."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Link"]


@dataclass(frozen=True, slots=True)
class Link:
    """A full-duplex link: ``latency_s`` once a message, ``bandwidth_bytes_per_s`` in each direction."""

    latency_s: float
    bandwidth_bytes_per_s: float

    def transfer_s(self, size_bytes: float) -> float:
        """How long the bytes alone occupy the link."""
        return size_bytes / self.bandwidth_bytes_per_s
