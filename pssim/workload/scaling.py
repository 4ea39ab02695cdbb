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
    """The non-negative line of least squared relative error: small batches count like large ones."""
    largest = max(seconds)
    if largest == 0.0:
        return BatchLine(0.0, 0.0)
    # A time far below the others is clock noise; unbounded, its weight would drown the rest.
    weights = [1.0 / max(t, 1e-3 * largest) ** 2 for t in seconds]
    w = sum(weights)
    wb = sum(k * b for k, b in zip(weights, batches, strict=True))
    wbb = sum(k * b * b for k, b in zip(weights, batches, strict=True))
    wt = sum(k * t for k, t in zip(weights, seconds, strict=True))
    wbt = sum(k * b * t for k, b, t in zip(weights, batches, seconds, strict=True))
    spread = w * wbb - wb * wb
    if spread > 0.0:
        slope = (w * wbt - wb * wt) / spread
        fixed = (wt - slope * wb) / w
        if slope < 0.0:  # the squared error is convex, so the best allowed line lies on the violated bound
            return BatchLine(wt / w, 0.0)
        if fixed < 0.0:
            return BatchLine(0.0, wbt / wbb)
        return BatchLine(fixed, slope)
    return BatchLine(wt / w, 0.0)
