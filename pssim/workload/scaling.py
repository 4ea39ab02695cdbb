"""How a layer's seconds grow with the batch: ``t(b) = fixed + per_sample * b``, neither of them negative."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["BatchLine", "fit_line"]


@dataclass(frozen=True, slots=True)
class BatchLine:
    """Seconds as a function of the batch."""

    fixed_s: float
    per_sample_s: float

    def at(self, batch: int) -> float:
        """Seconds at this batch."""
        return self.fixed_s + self.per_sample_s * batch


def fit_line(batches: Sequence[int], seconds: Sequence[float]) -> BatchLine:
    """The non-negative line of least squared relative error: small batches count like large ones.

    There must be two different batches at least.
    """
    largest = max(seconds)
    if largest == 0.0:
        return BatchLine(0.0, 0.0)
    # In parts of the largest, so that no time is too long or short to be squared.  One far below the
    # others is clock noise, and with its full weight would drown them.
    parts = [t / largest for t in seconds]
    weights = [1.0 / max(part, 1e-3) ** 2 for part in parts]
    w = sum(weights)
    wb = sum(k * b for k, b in zip(weights, batches, strict=True))
    wbb = sum(k * b * b for k, b in zip(weights, batches, strict=True))
    wt = sum(k * t for k, t in zip(weights, parts, strict=True))
    wbt = sum(k * b * t for k, b, t in zip(weights, batches, parts, strict=True))
    slope = (w * wbt - wb * wt) / (w * wbb - wb * wb)
    fixed = (wt - slope * wb) / w
    # The squared error is convex, so if this line is not allowed the best one is on the bound it crosses.
    if slope < 0.0:
        fixed, slope = wt / w, 0.0
    elif fixed < 0.0:
        fixed, slope = 0.0, wbt / wbb
    return BatchLine(fixed * largest, slope * largest)
