"""All-reduce: exact bytes and rounds, monotone costs, and the sharing of NICs counted by brute force."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pssim.cluster import fill_nodes
from pssim.network import Link, Network

RANKS = [*range(1, 34), 100, 511, 512, 12287, 12288]
LINK = Link(1.5e-6, 6e9)
LOCAL = Link(2e-7, 5e10)


def network(algorithm: str, link: Link = LINK, local: Link = LOCAL) -> Network:
    return Network(link, local, algorithm)


def one_a_node(ranks: int) -> tuple[int, ...]:
    return (1,) * ranks


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("size", [0, 1, 1000, 102_228_128, 2**31 + 1, 2**53 + 1])
def test_ring_moves_the_least_bytes(ranks: int, size: int) -> None:
    """Each rank sends exactly 2(N-1)/N of the size in 2(N-1) messages, to the rounding of a float."""
    cost = network("ring").all_reduce(size, one_a_node(ranks))
    share = Fraction(2 * (ranks - 1), ranks) * size
    assert cost.bytes_per_rank == pytest.approx(float(share), rel=4e-16 * 4)
    assert cost.latency_s == pytest.approx(2 * (ranks - 1) * LINK.latency_s, rel=1e-15)
    assert cost.transfer_s == pytest.approx(float(share) / LINK.bandwidth_bytes_per_s, rel=1e-15 * 4)


@pytest.mark.parametrize("ranks", RANKS)
def test_tree_takes_two_latencies_a_level(ranks: int) -> None:
    """2 ceil(log2 N) messages one after the other, each of the whole size, with one rank a node."""
    rounds = 2 * (ranks - 1).bit_length()
    cost = network("tree").all_reduce(10**6, one_a_node(ranks))
    assert rounds == 2 * math.ceil(math.log2(ranks))
    assert cost.latency_s == pytest.approx(rounds * LINK.latency_s, rel=1e-12)
    assert cost.transfer_s == pytest.approx(rounds * 10**6 / LINK.bandwidth_bytes_per_s, rel=1e-12)
    assert cost.bytes_per_rank == pytest.approx(2 * (ranks - 1) / ranks * 10**6)


@pytest.mark.parametrize("algorithm", ["ring", "tree", "auto"])
def test_one_rank_has_nothing_to_reduce(algorithm: str) -> None:
    """N = 1 costs nothing, whatever the algorithm and the size."""
    cost = network(algorithm).all_reduce(10**9, (1,))
    assert (cost.total_s, cost.bytes_per_rank) == (0.0, 0.0)


@pytest.mark.parametrize("ranks", RANKS[1:])
@pytest.mark.parametrize("algorithm", ["ring", "tree", "auto"])
def test_zero_bytes_cost_latency_only(algorithm: str, ranks: int) -> None:
    """An empty bucket still makes its rounds."""
    cost = network(algorithm).all_reduce(0, one_a_node(ranks))
    assert cost.transfer_s == 0.0
    assert cost.bytes_per_rank == 0.0
    assert cost.latency_s > 0.0


def test_fewer_bytes_than_ranks() -> None:
    """A size below N is split all the same: fractions of a byte, no zero and no error."""
    cost = network("ring").all_reduce(3, one_a_node(100))
    assert cost.bytes_per_rank == pytest.approx(2 * 99 / 100 * 3)


@pytest.mark.parametrize("algorithm", ["ring", "tree", "auto"])
@given(data=st.data())
def test_cost_is_monotone(algorithm: str, data: Any) -> None:
    """More bytes, more latency or less bandwidth never make an all-reduce faster."""
    draw = data.draw
    ranks, per_node = draw(st.integers(2, 300)), draw(st.integers(1, 30))
    counts = fill_nodes(ranks, per_node).ranks_per_node
    size = draw(st.integers(0, 10**9))
    latency, bandwidth = draw(st.floats(0, 1e-2)), draw(st.floats(1e6, 1e12))
    cost = network(algorithm, Link(latency, bandwidth)).all_reduce(size, counts)
    more = draw(st.integers(0, 10**9))
    larger = network(algorithm, Link(latency, bandwidth)).all_reduce(size + more, counts)
    slower = network(algorithm, Link(latency + draw(st.floats(0, 1e-2)), bandwidth)).all_reduce(size, counts)
    thinner = network(algorithm, Link(latency, bandwidth / draw(st.floats(1, 100)))).all_reduce(size, counts)
    for other in (larger, slower, thinner):
        assert other.total_s >= cost.total_s * (1 - 1e-12)


@pytest.mark.parametrize("size", [0, 1, 10**6, 10**9])
def test_ring_is_monotone_in_ranks(size: int) -> None:
    """More ranks never make a ring faster."""
    totals = [network("ring").all_reduce(size, one_a_node(ranks)).total_s for ranks in RANKS]
    assert all(before <= after for before, after in pairwise(totals))


@given(st.integers(1, 400), st.integers(1, 30), st.integers(0, 10**9))
def test_auto_is_the_faster_of_the_two(ranks: int, per_node: int, size: int) -> None:
    """And tells which it was."""
    counts = fill_nodes(ranks, per_node).ranks_per_node
    ring, tree = (network(name).all_reduce(size, counts) for name in ("ring", "tree"))
    chosen = network("auto").all_reduce(size, counts)
    assert chosen.total_s == min(ring.total_s, tree.total_s)
    assert chosen in (ring, tree)


def test_auto_takes_the_tree_for_small_and_the_ring_for_large_buckets() -> None:
    """At 512 nodes a kilobyte is a matter of latency, 100 MB one of bandwidth."""
    counts = one_a_node(512)
    assert network("auto").all_reduce(1000, counts).algorithm == "tree"
    assert network("auto").all_reduce(10**8, counts).algorithm == "ring"


def test_costs_scale_exactly_in_the_limits() -> None:
    """Without latency the cost is proportional to bytes and inverse bandwidth; without bytes, to latency."""
    counts = one_a_node(24)
    for algorithm in ("ring", "tree"):
        bytes_only = network(algorithm, Link(0.0, 1e9)).all_reduce(10**6, counts)
        larger = network(algorithm, Link(0.0, 1e9)).all_reduce(4 * 10**6, counts)
        slower = network(algorithm, Link(0.0, 2.5e8)).all_reduce(10**6, counts)
        assert larger.total_s == slower.total_s == 4 * bytes_only.total_s
        latency_only = network(algorithm, Link(1e-6, 1e9)).all_reduce(0, counts)
        quadruple = network(algorithm, Link(4e-6, 1e9)).all_reduce(0, counts)
        assert quadruple.total_s == pytest.approx(4 * latency_only.total_s)


# ------------------------------------------------------------------------------------- ranks on nodes


def round_s(pairs: list[tuple[int, int]], node: list[int], size_bytes: float) -> tuple[float, float]:
    """Latency and transfer of a round: its slowest message, with every NIC shared by the messages on it."""
    leaving = Counter(node[a] for a, b in pairs if node[a] != node[b])
    entering = Counter(node[b] for a, b in pairs if node[a] != node[b])
    slowest = (0.0, 0.0)
    for a, b in pairs:
        if node[a] == node[b]:
            took = (LOCAL.latency_s, size_bytes / LOCAL.bandwidth_bytes_per_s)
        else:
            sharing = max(leaving[node[a]], entering[node[b]])
            took = (LINK.latency_s, sharing * size_bytes / LINK.bandwidth_bytes_per_s)
        slowest = max(slowest, took, key=sum)
    return slowest


def tree_rounds(ranks: int) -> list[list[tuple[int, int]]]:
    """Messages of a binomial reduction to rank 0 and of the broadcast back, round by round.

    In round r of the reduction, whoever's number ends in a one and r zeros sends that bit away.
    """
    reduction = []
    for level in range((ranks - 1).bit_length()):
        bit = 1 << level
        reduction.append([(rank, rank ^ bit) for rank in range(ranks) if rank % (2 * bit) == bit])
    return [*reduction, *[[(b, a) for a, b in pairs] for pairs in reversed(reduction)]]


def ring_rounds(ranks: int) -> list[list[tuple[int, int]]]:
    return [[(rank, (rank + 1) % ranks) for rank in range(ranks)]] * (2 * (ranks - 1))


@given(data=st.data())
def test_nics_are_shared_as_counted_by_brute_force(data: Any) -> None:
    """Every message of every round, on nodes of any sizes: latency and transfer are the closed form's."""
    counts = sorted(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=9)), reverse=True)
    size = data.draw(st.sampled_from([0, 1, 1000, 10**7]))
    ranks = sum(counts)
    node = [index for index, count in enumerate(counts) for _ in range(count)]
    for algorithm, rounds, message in (
        ("tree", tree_rounds(ranks), float(size)),
        ("ring", ring_rounds(ranks), size / ranks),
    ):
        took = [round_s(pairs, node, message) for pairs in rounds]
        cost = network(algorithm).all_reduce(size, tuple(counts))
        assert cost.latency_s == pytest.approx(math.fsum(latency for latency, _ in took), rel=1e-12)
        assert cost.transfer_s == pytest.approx(math.fsum(transfer for _, transfer in took), rel=1e-12)
        sent = sum(len(pairs) for pairs in rounds) * message
        assert cost.bytes_per_rank == pytest.approx(sent / ranks, rel=1e-12)


def test_a_cost_does_not_depend_on_the_order_of_nodes() -> None:
    """Nodes of 3, 1 and 2 ranks cost what nodes of 3, 2 and 1 do."""
    for algorithm in ("ring", "tree", "auto"):
        one, other = (network(algorithm).all_reduce(10**6, nodes) for nodes in ((3, 1, 2), (3, 2, 1)))
        assert one == other


def test_ranks_of_one_node_use_the_local_link() -> None:
    """Within a node the NIC is idle; a local link slower than the NIC holds up the ring."""
    inside = network("ring").all_reduce(10**6, (8,))
    assert inside.latency_s == pytest.approx(14 * LOCAL.latency_s)
    slow = network("ring", LINK, Link(1e-3, 1e6)).all_reduce(10**6, (8, 8))
    assert slow.latency_s == pytest.approx(30 * 1e-3)


def test_eight_ranks_on_two_nodes_share_the_nic_in_the_tree() -> None:
    """Reduction over 4 + 4 ranks: two rounds inside the nodes, then one message over the NIC; and back."""
    cost = network("tree").all_reduce(10**6, (4, 4))
    assert cost.latency_s == pytest.approx(2 * (2 * LOCAL.latency_s + LINK.latency_s))
    assert cost.transfer_s == pytest.approx(2 * (2 * 10**6 / 5e10 + 10**6 / 6e9))
