"""Links that messages share: max-min by its definition, and one bottleneck as a special case."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pssim.network import MaxMinLinks, SharedLink
from pssim.network.sharing import max_min_rates


def run(links: Any, starts: list[int], work: list[int], routes: Any = None) -> list[int]:
    """When each message is through, on links driven from change to change."""
    through = [-1] * len(starts)
    coming = sorted(range(len(starts)), key=lambda index: (starts[index], index))
    while coming or -1 in through:
        change = links.next_change_ps()
        if coming and (change is None or starts[coming[0]] < change):
            index = coming.pop(0)
            links.start(starts[index], (0,) if routes is None else routes[index], work[index], index)
            continue
        assert change is not None
        for index in links.finish(change):
            through[index] = change
    return through


@st.composite
def messages(draw: Any) -> tuple[list[int], list[int]]:
    count = draw(st.integers(1, 12))
    times = st.one_of(st.integers(0, 30), st.integers(0, 10**9))
    starts = draw(st.lists(times, min_size=count, max_size=count))
    work = draw(st.lists(times, min_size=count, max_size=count))
    return starts, work


@given(messages())
def test_one_bottleneck_in_virtual_time_equals_max_min(case: Any) -> None:
    """Messages on one link get through at the same picosecond either way, up to one of rounding a change."""
    starts, work = case
    one, other = run(SharedLink(), starts, work), run(MaxMinLinks(), starts, work)
    assert one == pytest.approx(other, abs=2 * len(starts))


@given(messages())
def test_a_shared_link_follows_the_definition(case: Any) -> None:
    """With k messages under way each advances at 1/k, computed here in small steps of events."""
    starts, work = case
    left: dict[int, float] = {}
    through = [0.0] * len(starts)
    coming = sorted(range(len(starts)), key=lambda index: (starts[index], index))
    now = 0.0
    while coming or left:
        if not left:
            now = max(now, starts[coming[0]])
        while coming and starts[coming[0]] <= now:
            left[coming[0]] = work[coming[0]]
            coming.pop(0)
        first = min(left, key=lambda index: left[index])
        until = now + left[first] * len(left)
        finished = not coming or until <= starts[coming[0]]
        until = until if finished else float(starts[coming[0]])
        left = {index: rest - (until - now) / len(left) for index, rest in left.items()}
        if finished:
            del left[first]
            through[first] = until
        now = until
    for found, expected in zip(run(SharedLink(), starts, work), through, strict=True):
        assert found == pytest.approx(expected, abs=2 * len(starts))


def test_two_messages_share_equally() -> None:
    """100 and 300 on one link from the start: half speed each until 200, then the rest alone until 400."""
    for links in (SharedLink(), MaxMinLinks()):
        assert run(links, [0, 0], [100, 300]) == [200, 400]


def test_a_late_message_slows_the_first_from_then_on() -> None:
    """100 from 0 and 100 from 50: the first is through at 150, the second at 200."""
    for links in (SharedLink(), MaxMinLinks()):
        assert run(links, [0, 50], [100, 100]) == [150, 200]


def test_messages_that_finish_at_once_come_in_the_order_they_joined() -> None:
    """Ties are not broken by what is carried."""
    for links in (SharedLink(), MaxMinLinks()):
        for item in ("b", "a", "c"):
            links.start(0, (0,), 10, item)
        assert links.finish(30) == ["b", "a", "c"]


def test_messages_without_bytes_are_through_at_once() -> None:
    """A zero-byte message does not wait for others, nor slow them."""
    for links in (SharedLink(), MaxMinLinks()):
        assert run(links, [0, 5], [100, 0]) == [100, 5]


@pytest.mark.parametrize("size", [10**6, 10**12, 10**15])
def test_many_messages_one_after_the_other_lose_no_time(size: int) -> None:
    """A thousand messages that keep a link busy end when their sum is through, whatever the rounding."""
    starts = [index * size // 2 for index in range(1000)]
    through = run(SharedLink(), starts, [size] * 1000)
    assert max(through) == pytest.approx(1000 * size, abs=1000)


@st.composite
def graphs(draw: Any) -> dict[int, tuple[int, ...]]:
    links = draw(st.integers(1, 6))
    flows = draw(st.integers(1, 10))
    route = st.lists(st.integers(0, links - 1), min_size=1, max_size=links, unique=True)
    return {flow: tuple(draw(route)) for flow in range(flows)}


@given(graphs())
def test_rates_are_max_min_fair(routes: Any) -> None:
    """No link carries more than it can, and every flow has a full link on which no other flow is faster.

    That is equivalent to the definition: to gain, such a flow would have to take from one no faster
    than itself (Bertsekas and Gallager, "Data Networks", section 6.5.2).
    """
    rates = max_min_rates(routes)
    assert rates.keys() == routes.keys()
    load = {link: 0.0 for route in routes.values() for link in route}
    fastest = dict.fromkeys(load, 0.0)
    for flow, route in routes.items():
        assert rates[flow] > 0
        for link in route:
            load[link] += rates[flow]
            fastest[link] = max(fastest[link], rates[flow])
    assert all(used <= 1.0 + 1e-9 for used in load.values())
    for flow, route in routes.items():
        assert any(load[link] >= 1.0 - 1e-9 and fastest[link] <= rates[flow] + 1e-9 for link in route)


def test_rates_on_a_known_network() -> None:
    """Two links; flow 0 uses both, flows 1 and 2 the first, flow 3 the second: 1/3, 1/3, 1/3, 2/3."""
    rates = max_min_rates({0: (0, 1), 1: (0,), 2: (0,), 3: (1,)})
    assert rates == pytest.approx({0: 1 / 3, 1: 1 / 3, 2: 1 / 3, 3: 2 / 3})


@given(graphs(), st.data())
def test_a_network_carries_every_message_in_bounded_time(routes: Any, data: Any) -> None:
    """No message is faster than alone, and none takes longer than all work in a row from its own start."""
    work = [data.draw(st.integers(0, 10**6)) for _ in routes]
    through = run(MaxMinLinks(), [0] * len(work), work, routes)
    for index, at in enumerate(through):
        assert work[index] <= at <= sum(work) + len(work)
