"""The slowest of many ranks: the distribution of the largest jitter factor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Line", "Slowest", "largest", "slowest_factor"]

Line = tuple[float, float]
"""A function of the slowest rank's jitter factor: slope and value at 0."""


@dataclass(frozen=True, eq=False)
class Slowest:
    """The largest jitter factor of all ranks: values and their probabilities, as arrays or sequences."""

    values: Sequence[float] | NDArray[np.float64]
    probabilities: Sequence[float] | NDArray[np.float64]

    @cached_property
    def mean(self) -> float:
        """The expected factor."""
        return self.mean_of_largest([(1.0, 0.0)])

    def mean_of(self, function: Callable[[float], float]) -> float:
        """The expected value of ``function`` of the factor."""
        if len(self.values) == 1:
            return function(self.values[0])
        pairs = zip(self.values, self.probabilities, strict=True)
        return float(sum(probability * function(float(value)) for value, probability in pairs))

    def mean_of_largest(self, lines: Sequence[Line]) -> float:
        """The expected value of the largest of linear functions of the factor."""
        if len(self.values) == 1:
            return largest(lines, self.values[0])
        import numpy as np

        slopes, offsets = np.array(sorted(set(lines))).T
        values, probabilities = np.asarray(self.values), np.asarray(self.probabilities)
        if len(slopes) == 1:
            return float(slopes[0] * (probabilities @ values) + offsets[0])
        return float(probabilities @ (np.multiply.outer(values, slopes) + offsets).max(axis=1))


def largest(lines: Sequence[Line], factor: float) -> float:
    """The largest of linear functions of the factor."""
    return max(slope * factor + offset for slope, offset in lines)


@lru_cache(maxsize=512)
def slowest_factor(
    ranks_per_node: tuple[int, ...], sigma_rank: float, sigma_node: float, points: int = 2001
) -> Slowest:
    """The distribution of the largest of log-normal factors with mean 1.

    Each rank's factor has a part of its own (``sigma_rank``, of the logarithm) and one it shares with
    its node (``sigma_node``).  Given its node's part the ranks of a node are independent, and nodes
    are independent, so the distribution function of the maximum is a product over nodes of integrals
    of a power.  It is evaluated on a grid of ``points`` points, whose mean is exact to about
    30 / points^2 of sigma; to 1e-4 where one part is very much smaller than the other.
    """
    if sigma_rank == 0.0 and sigma_node == 0.0:
        return Slowest((1.0,), (1.0,))
    import numpy as np
    from scipy.special import ndtr

    sigma = sqrt(sigma_rank**2 + sigma_node**2)
    # In units of sigma, about the median: 9 of them leave out 1e-19 on either side.
    grid = np.linspace(-9.0 * sigma, 9.0 * sigma, points)
    shift = 0.5 * sigma**2
    log_cdf = np.zeros_like(grid)
    if sigma_node == 0.0 or sigma_rank == 0.0:
        # One part alone: in units of its sigma the grid is always the same.
        draws = len(ranks_per_node) if sigma_rank == 0.0 else sum(ranks_per_node)
        log_cdf = draws * _log_normal_cdf(points)
    else:
        z = np.linspace(-8.5, 8.5, 601)
        weight = np.exp(-0.5 * z**2)
        weight /= weight.sum()
        for count, nodes in Counter(ranks_per_node).items():
            cdf = (ndtr((grid[:, None] - sigma_node * z) / sigma_rank) ** count) @ weight
            with np.errstate(divide="ignore"):
                log_cdf += nodes * np.log(cdf)
    mass = np.diff(np.exp(log_cdf))
    middle = np.exp(0.5 * (grid[1:] + grid[:-1]) - shift)
    kept = mass > 1e-18
    total = mass[kept].sum()
    return Slowest(middle[kept], mass[kept] / total)


@lru_cache(maxsize=8)
def _log_normal_cdf(points: int) -> NDArray[np.float64]:
    """The logarithm of the standard normal distribution function on the grid."""
    import numpy as np
    from scipy.special import log_ndtr

    found: NDArray[np.float64] = log_ndtr(np.linspace(-9.0, 9.0, points))
    return found
