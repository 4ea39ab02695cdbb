"""Links that messages share fairly, as fluid.

Work is measured in picoseconds: what a message takes alone.  :class:`SharedLink` is one bottleneck
in virtual time, logarithmic cost a change (processor sharing).  :class:`MaxMinLinks` is the general
case by progressive filling, linear cost a change; on a single bottleneck the two agree to the
rounding of a picosecond.

Virtual time on a single bottleneck: with k messages under way each advances by dt/k in dt, so all
advance by the same amount, and a message that joins at virtual time v is through at v + work.
Source: A. Parekh and R. Gallager, "A generalized processor sharing approach to flow control", 1993.
Max-min: D. Bertsekas and R. Gallager, "Data Networks", 2nd ed. 1992, section 6.5.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from math import ceil
from typing import Any

__all__ = ["MaxMinLinks", "SharedLink"]

# Virtual time advances in units of 2**-20 picosecond; the division by k rounds down by less than one
# unit a change, so no message is ever through too early, and exactness does not depend on a tolerance.
_SHIFT = 20


class SharedLink:
    """Messages that share one link equally."""

    def __init__(self) -> None:
        self._now = 0
        self._virtual = 0
        self._through: list[tuple[int, int, Any]] = []
        self._serial = 0

    def start(self, now_ps: int, route: Sequence[int], work_ps: int, item: Any) -> bool:
        """A message joins; gives whether it may be through before all others.

        ``route`` is not looked at, since there is one link.
        """
        through = self._through
        if through:
            self._virtual += ((now_ps - self._now) << _SHIFT) // len(through)
        self._now = now_ps
        self._serial += 1
        end = self._virtual + (work_ps << _SHIFT)
        heappush(through, (end, self._serial, item))
        return through[0][0] == end

    def next_change_ps(self) -> int | None:
        """When the next message is through if none joins."""
        if not self._through:
            return None
        left = (self._through[0][0] - self._virtual) * len(self._through)
        return self._now + -(-left >> _SHIFT)

    def finish(self, now_ps: int) -> list[Any]:
        """The items of all messages that are through by ``now_ps``, in the order they got through."""
        through = self._through
        if through:
            self._virtual += ((now_ps - self._now) << _SHIFT) // len(through)
        self._now = now_ps
        items = []
        while through and through[0][0] <= self._virtual:
            items.append(heappop(through)[2])
        if not through:
            self._virtual = 0
        return items


class MaxMinLinks:
    """Messages over several links of equal bandwidth, each with the max-min fair share of its route."""

    def __init__(self) -> None:
        self._now = 0
        self._serial = 0
        self._left: dict[int, float] = {}
        self._rate: dict[int, float] = {}
        self._route: dict[int, Sequence[int]] = {}
        self._item: dict[int, Any] = {}

    def start(self, now_ps: int, route: Sequence[int], work_ps: int, item: Any) -> bool:
        """A message joins that uses every link of ``route``; any may be sooner through by that."""
        self._progress_to(now_ps)
        self._serial += 1
        self._left[self._serial] = float(work_ps)
        self._route[self._serial] = route
        self._item[self._serial] = item
        self._rate = max_min_rates(self._route)
        return True

    def next_change_ps(self) -> int | None:
        """When the next message is through if none joins."""
        if not self._left:
            return None
        soonest = min(left / self._rate[flow] for flow, left in self._left.items())
        # A thousandth of a picosecond is rounding, not work.
        return self._now + max(0, ceil(soonest - 1e-3))

    def finish(self, now_ps: int) -> list[Any]:
        """The items of all messages that are through by ``now_ps``, in the order they joined."""
        self._progress_to(now_ps)
        done = [flow for flow, left in self._left.items() if left <= 1e-3 * self._rate[flow]]
        items = [self._item.pop(flow) for flow in done]
        for flow in done:
            del self._left[flow], self._route[flow]
        if done:
            self._rate = max_min_rates(self._route)
        return items

    def _progress_to(self, now_ps: int) -> None:
        passed = now_ps - self._now
        if passed:
            for flow, rate in self._rate.items():
                self._left[flow] -= rate * passed
        self._now = now_ps


def max_min_rates(routes: dict[int, Sequence[int]]) -> dict[int, float]:
    """The max-min fair rate of each flow, as a fraction of the links' common bandwidth."""
    flows_of: dict[int, dict[int, None]] = {}
    for flow, route in routes.items():
        for link in route:
            flows_of.setdefault(link, {})[flow] = None
    spare = dict.fromkeys(flows_of, 1.0)
    rates: dict[int, float] = {}
    while flows_of:
        tightest = min(flows_of, key=lambda link: (spare[link] / len(flows_of[link]), link))
        share = spare[tightest] / len(flows_of[tightest])
        for flow in list(flows_of[tightest]):
            rates[flow] = share
            for link in dict.fromkeys(routes[flow]):
                spare[link] -= share
                del flows_of[link][flow]
                if not flows_of[link]:
                    del flows_of[link]
    return {flow: rates[flow] for flow in routes}
