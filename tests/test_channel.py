"""Channels: issue order, width, equal sharing of the wire, and whether latency keeps a place."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pssim.network import Channel, Operation
from pssim.theory import finish_times


def operate(
    ready: list[int], transfer: list[int], latency: list[int], width: int, holds: bool
) -> list[tuple[int, int]]:
    """Start and end of each operation, offered when they become ready, as the events engine does."""
    channel = Channel(width, holds)
    operations = []
    for at, bytes_ps, latency_ps in zip(ready, transfer, latency, strict=True):
        operation = Operation(bytes_ps, latency_ps)
        operation.ready_ps = at
        channel.advance(at)
        channel.offer(operation)
        operations.append(operation)
    for operation in operations:
        channel.settle(operation)
    return [(operation.start_ps, operation.end_ps) for operation in operations]  # type: ignore[misc]


def by_definition(
    ready: list[int], transfer: list[int], latency: list[int], width: int, holds: bool
) -> list[tuple[Fraction, Fraction]]:
    """The same in rational numbers, written down from the definition rather than for speed."""
    starts: dict[int, Fraction] = {}
    through: dict[int, Fraction] = {}
    left = {index: Fraction(work) for index, work in enumerate(transfer)}
    now = Fraction(0)
    while len(through) < len(ready):
        moved = True
        while moved:
            moved = False
            for index in [i for i in starts if i not in through and left[i] == 0]:
                through[index], moved = now, True
            following = len(starts)
            kept = [
                i
                for i in starts
                if i not in through or (holds and through[i] + latency[i] > now)
            ]
            if following < len(ready) and ready[following] <= now and len(kept) < width:
                starts[following], moved = now, True
        under_way = [i for i in starts if i not in through]
        times = [now + left[i] * len(under_way) for i in under_way]
        times += [Fraction(at) for at in ready if at > now]
        times += [through[i] + latency[i] for i in through if through[i] + latency[i] > now]
        if not times:
            break
        until = min(times)
        for i in under_way:
            left[i] -= (until - now) / len(under_way)
        now = until
    return [(starts[i], through[i] + latency[i]) for i in range(len(ready))]


@st.composite
def traffic(draw: Any) -> tuple[list[int], list[int], list[int], int, bool]:
    count = draw(st.integers(1, 7))
    times = st.one_of(st.integers(0, 50), st.integers(0, 10**6))

    def several() -> list[int]:
        return draw(st.lists(times, min_size=count, max_size=count))

    return sorted(several()), several(), several(), draw(st.integers(1, 4)), draw(st.booleans())


@given(traffic())
def test_channel_follows_the_definition(case: Any) -> None:
    """Any width: starts and ends are those of exact fluid sharing, up to rounding by 1 ps a change."""
    rounding = 2 * len(case[0])
    for found, expected in zip(operate(*case), by_definition(*case), strict=True):
        for time_ps, exact in zip(found, expected, strict=True):
            assert 0 <= time_ps - exact <= rounding


@given(traffic())
def test_offering_early_or_late_makes_no_difference(case: Any) -> None:
    """What the vector engine does, offer all and settle when needed, gives the same picoseconds."""
    ready, transfer, latency, width, holds = case
    channel = Channel(width, holds)
    operations = [Operation(*work) for work in zip(transfer, latency, strict=True)]
    for operation, at in zip(operations, ready, strict=True):
        operation.ready_ps = at
        channel.offer(operation)
    for operation in reversed(operations):
        channel.settle(operation)
    assert [(op.start_ps, op.end_ps) for op in operations] == operate(*case)


@given(traffic())
def test_closed_form_of_a_channel_equals_the_channel(case: Any) -> None:
    """theory.finish_times, on floats and without a line in common, ends each operation at the same time."""
    ready, transfer, latency, width, holds = case
    ends = finish_times(ready, transfer, latency, width, holds)
    for (_, end), expected in zip(operate(*case), ends, strict=True):
        assert end == pytest.approx(expected, abs=2 * len(ready))


def test_two_equal_collectives_at_once_end_together() -> None:
    """On a channel of two, equal operations of 100 share the wire and both end after 200."""
    assert operate([0, 0], [100, 100], [0, 0], 2, True) == [(0, 200), (0, 200)]


def test_pairs_end_together_on_a_channel_of_two() -> None:
    """Of four equal operations the first two end together, then the others (gloo, as measured)."""
    assert operate([0] * 4, [100] * 4, [0] * 4, 2, True) == [(0, 200), (0, 200), (200, 400), (200, 400)]


def test_a_small_collective_overtakes_a_large_one_on_a_channel_of_two() -> None:
    """Issued later and done first; on a channel of one it waits its turn."""
    assert operate([0, 10], [1000, 1], [0, 0], 2, True) == [(0, 1001), (10, 12)]
    assert operate([0, 10], [1000, 1], [0, 0], 1, True) == [(0, 1000), (1000, 1001)]


def test_latencies_do_not_share() -> None:
    """While one operation only waits for its latency the other has the wire to itself."""
    assert operate([0, 0], [10, 100], [500, 0], 2, True) == [(0, 520), (0, 110)]


@pytest.mark.parametrize("width", [1, 2])
def test_a_place_is_held_until_completion_or_until_the_bytes_are_through(width: int) -> None:
    """The next operation starts after latency with ``holds_completion``, else when the bytes are through."""
    first, last = [0] * (width + 1), [100] * (width + 1)
    latency = [30] * (width + 1)
    through = 100 * width
    assert operate(first, last, latency, width, True)[-1][0] == through + 30
    assert operate(first, last, latency, width, False)[-1][0] == through


def test_operations_without_bytes_take_their_latency_only() -> None:
    """Zero bytes never share and never block a wire, on any width."""
    for width in (1, 2, 3):
        assert operate([5], [0], [7], width, True) == [(5, 12)]
        assert operate([5, 5, 5], [0, 0, 0], [0, 0, 0], width, True) == [(5, 5)] * 3
