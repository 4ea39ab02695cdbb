"""What an all-reduce costs: closed forms for a given placement of ranks on nodes.

An algorithm is a sequence of rounds; in a round some ranks each send one message, and the round
lasts as long as its slowest message.  Ranks of one node share the node's NIC: with k messages of a
round leaving (or entering) a node at once, each gets 1/k of the bandwidth.  Messages inside a node
use the local link, which its pairs do not share.  The arithmetic of the reduction itself is taken
as free.

Both algorithms visit the ranks node by node, nodes with most ranks first, as topology-aware
libraries do, so a cost depends only on how many ranks each node has.

- ring: 2(N-1) rounds of size/N bytes (reduce-scatter, then all-gather).
- tree: binomial reduction to one rank, then binomial broadcast: 2 ceil(log2 N) rounds of the whole
  size, not pipelined.

Source: R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication
operations in MPICH", IJHPCA 19 (2005), sections 4.1 and 4.4 (ring: P. Patarasuk and X. Yuan, 2009).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pssim.network.link import Link

__all__ = ["ALGORITHMS", "CollectiveCost", "Network"]


@dataclass(frozen=True, slots=True)
class CollectiveCost:
    """An all-reduce alone on its channel: ``latency_s`` and ``transfer_s`` add up to its duration."""

    algorithm: str
    latency_s: float
    transfer_s: float
    bytes_per_rank: float
    """Bytes a rank sends, averaged over ranks."""

    @property
    def total_s(self) -> float:
        """Duration from the last arrival to completion."""
        return self.latency_s + self.transfer_s


FREE = CollectiveCost("none", 0.0, 0.0, 0.0)


def _slower(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """The (latency, transfer) pair that takes longer."""
    return one if sum(one) >= sum(other) else other


def _ring(size_bytes: float, per_node: tuple[int, ...], link: Link, local: Link | None) -> CollectiveCost:
    ranks = sum(per_node)
    rounds, chunk = 2 * (ranks - 1), size_bytes / ranks
    slowest = (0.0, 0.0)
    if len(per_node) > 1:  # one message leaves each node in a round, whatever the ranks inside
        slowest = _slower(slowest, (link.latency_s, link.transfer_s(chunk)))
    if per_node[0] > 1:
        inside = local or link
        slowest = _slower(slowest, (inside.latency_s, inside.transfer_s(chunk)))
    return CollectiveCost("ring", rounds * slowest[0], rounds * slowest[1], rounds * chunk)


@lru_cache(maxsize=4096)
def _tree_rounds(per_node: tuple[int, ...]) -> tuple[tuple[int, bool], ...]:
    """For each round of a binomial tree, the most messages that share a NIC, and whether some need none."""
    if per_node[0] == 1:
        return ((1, False),) * (len(per_node) - 1).bit_length()
    ranks = sum(per_node)
    node = np.repeat(np.arange(len(per_node)), per_node)
    rounds = []
    distance = 1
    while distance < ranks:
        source = np.arange(distance, ranks, 2 * distance)
        sending, receiving = node[source], node[source - distance]
        crosses = sending != receiving
        sharing = 0
        if crosses.any():
            sharing = int(max(np.bincount(sending[crosses]).max(), np.bincount(receiving[crosses]).max()))
        rounds.append((sharing, not crosses.all()))
        distance *= 2
    return tuple(rounds)


def _tree(size_bytes: float, per_node: tuple[int, ...], link: Link, local: Link | None) -> CollectiveCost:
    ranks = sum(per_node)
    latency = transfer = 0.0
    for sharing, stays_inside in _tree_rounds(per_node):
        slowest = (0.0, 0.0)
        if sharing:
            slowest = _slower(slowest, (link.latency_s, sharing * link.transfer_s(size_bytes)))
        if stays_inside:
            inside = local or link
            slowest = _slower(slowest, (inside.latency_s, inside.transfer_s(size_bytes)))
        # The broadcast runs the same rounds backwards, with senders and receivers exchanged.
        latency += 2 * slowest[0]
        transfer += 2 * slowest[1]
    return CollectiveCost("tree", latency, transfer, 2 * (ranks - 1) / ranks * size_bytes)


ALGORITHMS: dict[str, Callable[[float, tuple[int, ...], Link, Link | None], CollectiveCost]] = {
    "ring": _ring,
    "tree": _tree,
}


@dataclass(frozen=True, slots=True)
class Network:
    """A single switch: every node has one NIC (``link``, each direction); ranks of a node share it.

    ``local_link`` connects ranks of one node.  ``algorithm`` is a name of ALGORITHMS or "auto", the
    faster one for each size.  A channel runs at most ``channel_width`` collectives at once; with
    ``holds_completion`` a collective keeps its place until it is complete, else until its bytes
    are through and only its latency remains.
    """

    link: Link
    local_link: Link | None = None
    algorithm: str = "auto"
    channel_width: int = 1
    holds_completion: bool = True

    def all_reduce(self, size_bytes: int, ranks_per_node: tuple[int, ...]) -> CollectiveCost:
        """The cost of averaging ``size_bytes`` over all ranks, ``ranks_per_node`` of them on each node."""
        return _cost(self.algorithm, size_bytes, ranks_per_node, self.link, self.local_link)


@lru_cache(maxsize=4096)
def _cost(
    algorithm: str, size_bytes: int, per_node: tuple[int, ...], link: Link, local: Link | None
) -> CollectiveCost:
    per_node = tuple(sorted(per_node, reverse=True))
    if sum(per_node) <= 1:
        return FREE
    names = list(ALGORITHMS) if algorithm == "auto" else [algorithm]
    costs = [ALGORITHMS[name](float(size_bytes), per_node, link, local) for name in names]
    return min(costs, key=lambda cost: cost.total_s)
