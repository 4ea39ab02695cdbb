"""Time inside engines: whole picoseconds, rounded once, by the functions in this module alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pssim.cluster.jitter import JitterSource
from pssim.errors import InputError

__all__ = ["LONGEST_S", "PS_PER_S", "ComputeTable", "to_ps"]

PS_PER_S = 10**12
# Beyond this a run of many steps could leave int64 (9.2e18 ps, 106 days).
LONGEST_S = 1e6


def to_ps(seconds: float) -> int:
    """A duration in whole picoseconds.  Raise InputError if it is negative, not finite, or over 10^6 s."""
    if not 0.0 <= seconds <= LONGEST_S:
        raise InputError(f"a duration must be between 0 and {LONGEST_S:g} s, got {seconds!r} s")
    return round(seconds * PS_PER_S)
# A single rank's factor needs the draws of the ranks before it: for a low rank that is cheap, for a
# high one the whole step is computed, and kept for the others that come by soon.
_CHEAP_ALONE = 128
_RECENT = 16


class ComputeTable:
    """The duration of each compute segment of each rank, in picoseconds, step by step.

    Segment 0 is the forward pass, segment b + 1 the backward pass up to bucket b.
    """

    def __init__(self, segments_s: tuple[float, ...], jitter: JitterSource) -> None:
        for seconds in segments_s:
            to_ps(seconds)
        self._scaled = np.asarray(segments_s, dtype=np.float64) * PS_PER_S
        self._jitter = jitter
        self._constant: NDArray[np.int64] | None = None
        self._recent: dict[int, NDArray[np.int64]] = {}
        self._factors: tuple[int, NDArray[np.float64]] | None = None

    def factors(self, step: int) -> NDArray[np.float64]:
        """The jitter factor of each rank in this step."""
        if self._factors is None or self._factors[0] != step:
            self._factors = (step, self._jitter.factors(step))
        return self._factors[1]

    def step(self, step: int) -> NDArray[np.int64]:
        """Durations in this step, shape (segments, ranks); not to be written to."""
        if self._constant is not None:
            return self._constant
        table = self._rounded(self.factors(step))
        if not self._jitter.varies_in_time:
            self._constant = table
        return table

    def row(self, rank: int, step: int) -> list[int]:
        """Durations of one rank's segments in this step."""
        if self._constant is not None:
            row: list[int] = self._constant[:, rank].tolist()
        elif rank < _CHEAP_ALONE:
            row = self._rounded(self._jitter.factor_of(rank, step))[:, 0].tolist()
        else:
            if step not in self._recent:
                self._recent[step] = self.step(step)
                if len(self._recent) > _RECENT:
                    del self._recent[next(iter(self._recent))]
            row = self._recent[step][:, rank].tolist()
        return row

    def _rounded(self, factors: NDArray[np.float64]) -> NDArray[np.int64]:
        durations = np.multiply.outer(self._scaled, factors)
        np.rint(durations, out=durations)
        return durations.astype(np.int64)

    def extra(self, cost_s: float, step: int) -> NDArray[np.int64]:
        """The duration of an extra computation of ``cost_s`` on each rank in this step, shape (ranks,)."""
        to_ps(cost_s)
        extra: NDArray[np.int64] = np.rint(cost_s * PS_PER_S * self.factors(step)).astype(np.int64)
        return extra
