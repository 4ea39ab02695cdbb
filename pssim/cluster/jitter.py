"""Jitter: how much the compute time of a rank varies around what was profiled.

One factor per (replication, rank, step), with mean 1, multiplies forward and backward of that step.
It is addressed by those indices and the seed alone, so it does not depend on the size of the
cluster, the scheme or the engine: comparisons use common random numbers.

The factor is a product of three log-normal parts, each given by its coefficient of variation:

- ``persistent``: drawn once per rank, constant over the run (a slow part, a hot socket);
- ``node``: drawn per node and step, common to the ranks of that node;
- ``independent``: drawn per rank and step.

A log-normal factor with mean 1 and coefficient of variation c is exp(s z - s^2/2) with
s^2 = ln(1 + c^2) and z standard normal.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log1p, sqrt

import numpy as np
from numpy.typing import NDArray

from pssim.cluster.placement import Placement
from pssim.streams import stream

__all__ = ["Jitter", "JitterSource", "log_normal_sigma"]

FloatArray = NDArray[np.float64]


def log_normal_sigma(cv: float) -> float:
    """The standard deviation of the logarithm of one whose coefficient of variation is ``cv``."""
    return sqrt(log1p(cv * cv))


@dataclass(frozen=True, slots=True)
class Jitter:
    """Coefficients of variation of the three parts; all zero means none."""

    persistent: float = 0.0
    node: float = 0.0
    independent: float = 0.0

    @property
    def varies_in_time(self) -> bool:
        """Whether a rank's factor changes from step to step."""
        return self.node > 0 or self.independent > 0

    def __bool__(self) -> bool:
        return self.persistent > 0 or self.varies_in_time


class JitterSource:
    """The factors of one replication: ``factors(step)`` gives one per rank.

    ``slowdown`` multiplies a rank's factor for good (a slower machine).  ``streams`` and
    ``node_streams`` are the random streams the ranks and nodes draw from, by default their own
    numbers; a test that relabels ranks permutes them along.
    """

    def __init__(
        self,
        jitter: Jitter,
        placement: Placement,
        *,
        seed: int = 1,
        replication: int = 0,
        slowdown: tuple[float, ...] | None = None,
        streams: tuple[int, ...] | None = None,
        node_streams: dict[int, int] | None = None,
    ) -> None:
        self.jitter = jitter
        self.slowdown = slowdown
        self._seed = seed
        self._replication = replication
        ranks = placement.ranks
        self._ranks = np.arange(ranks) if streams is None else np.asarray(streams)
        self._nodes = placement.nodes
        if node_streams is not None:
            self._nodes = np.array([node_streams[node] for node in placement.node_of_rank])
        constant = np.ones(ranks) if slowdown is None else np.asarray(slowdown, dtype=np.float64)
        if jitter.persistent > 0:
            constant = constant * self._part("persistent", jitter.persistent, self._ranks)
        self._constant: FloatArray = constant

    @property
    def varies_in_time(self) -> bool:
        """Whether factors change from step to step."""
        return self.jitter.varies_in_time

    def _part(self, name: str, cv: float, index: NDArray[np.int64], step: int | None = None) -> FloatArray:
        sigma = log_normal_sigma(cv)
        generator = stream(self._seed, "jitter", name, self._replication, "-" if step is None else step)
        # A prefix of the stream's draws, so that rank i gets the same factor in any cluster size.
        normal = generator.standard_normal(int(index.max()) + 1)[index]
        factors: FloatArray = np.exp(sigma * normal - 0.5 * sigma * sigma)
        return factors

    def factors(self, step: int) -> FloatArray:
        """The factor of each rank in this step, shape (ranks,)."""
        return self._of(step, slice(None))

    def factor_of(self, rank: int, step: int) -> FloatArray:
        """The factor of one rank in this step, shape (1,): the same number, drawn without those after it."""
        return self._of(step, slice(rank, rank + 1))

    def _of(self, step: int, ranks: slice) -> FloatArray:
        factors = self._constant[ranks]
        if self.jitter.node > 0:
            factors = factors * self._part("node", self.jitter.node, self._nodes[ranks], step)
        if self.jitter.independent > 0:
            factors = factors * self._part("independent", self.jitter.independent, self._ranks[ranks], step)
        return factors
