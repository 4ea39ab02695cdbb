"""Placement: the node of each rank."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

__all__ = ["Placement", "fill_nodes"]


@dataclass(frozen=True)
class Placement:
    """The node each rank sits on: ``node_of_rank[i]`` for rank i, any non-negative numbers."""

    node_of_rank: tuple[int, ...]

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return len(self.node_of_rank)

    @cached_property
    def nodes(self) -> NDArray[np.int64]:
        """The node of each rank as an array of shape (ranks,)."""
        return np.asarray(self.node_of_rank, dtype=np.int64)

    @cached_property
    def ranks_per_node(self) -> tuple[int, ...]:
        """How many ranks each used node has, largest first: all that a collective's cost depends on."""
        counts = np.unique(self.nodes, return_counts=True)[1]
        return tuple(sorted((int(count) for count in counts), reverse=True))


def fill_nodes(ranks: int, ranks_per_node: int) -> Placement:
    """Ranks placed node after node; the last node may be ragged."""
    return Placement(tuple((np.arange(ranks) // ranks_per_node).tolist()))
