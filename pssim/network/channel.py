"""A channel: the order in which a communicator runs its collectives, and how those under way share it.

Time is in whole picoseconds.  A collective is first *under way*, moving its bytes, then only its
latency remains.  At most ``width`` collectives hold the channel at once; they start in issue order.
With k under way the bytes of each advance at 1/k; latencies do not share.  Progress is counted in
integer units of 1/lcm(1..width) picosecond, so the arithmetic is exact and every engine that uses
this class gets the same numbers.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from math import lcm

__all__ = ["Channel", "Operation"]


class Operation:
    """One collective: when it was ready (its last rank arrived), started and ended, in picoseconds.

    ``transfer_ps`` is what its bytes take alone on the channel, ``latency_ps`` what follows.
    """

    __slots__ = ("end_ps", "latency_ps", "ready_ps", "start_ps", "transfer_ps")

    def __init__(self, transfer_ps: int, latency_ps: int) -> None:
        self.transfer_ps = transfer_ps
        self.latency_ps = latency_ps
        self.ready_ps: int | None = None
        self.start_ps: int | None = None
        self.end_ps: int | None = None


class Channel:
    """The state of one channel.  Operations are offered in issue order, once they are ready."""

    def __init__(self, width: int = 1, holds_completion: bool = True) -> None:
        self._width = width
        self._holds_completion = holds_completion
        self._units = lcm(*range(1, width + 1))
        self._now = 0
        self._free_from = 0  # for width 1
        self._queue: deque[Operation] = deque()
        self._under_way: list[tuple[Operation, list[int]]] = []  # with what remains, in units
        self._held_until: list[int] = []  # places kept by operations of which only latency remains

    def offer(self, operation: Operation) -> None:
        """Take in the next operation, whose ``ready_ps`` is set and not before any earlier one's."""
        if self._width > 1:
            self._queue.append(operation)
            return
        ready = operation.ready_ps
        assert ready is not None
        start = max(ready, self._free_from)
        through = start + operation.transfer_ps
        end = through + operation.latency_ps
        operation.start_ps, operation.end_ps = start, end
        self._free_from = end if self._holds_completion else through

    def settle(self, operation: Operation) -> int:
        """Run the channel until the end of ``operation`` is known, and give it.

        Right as long as nothing that is offered later could be ready before that end.
        """
        while operation.end_ps is None:
            change = self.next_change_ps()
            assert change is not None, "an operation was settled before it was offered"
            self.advance(change)
        return operation.end_ps

    def next_change_ps(self) -> int | None:
        """When something happens next if nothing more is offered."""
        changes = []
        if self._under_way:
            rate = self._units // len(self._under_way)
            least = min(remaining[0] for _, remaining in self._under_way)
            changes.append(self._now + -(-least // rate))
        if self._held_until:
            changes.append(self._held_until[0])
        if self._queue and len(self._under_way) + len(self._held_until) < self._width:
            ready = self._queue[0].ready_ps
            assert ready is not None
            changes.append(max(self._now, ready))
        return min(changes) if changes else None

    def advance(self, now_ps: int) -> None:
        """Let time pass up to and including ``now_ps``."""
        while (change := self.next_change_ps()) is not None and change <= now_ps:
            self._step_to(change)
        self._progress_to(now_ps)

    def _progress_to(self, time_ps: int) -> None:
        if self._under_way:
            done = (time_ps - self._now) * (self._units // len(self._under_way))
            for _, remaining in self._under_way:
                remaining[0] -= done
        self._now = time_ps

    def _step_to(self, time_ps: int) -> None:
        """One change: ends first, then places that come free, then starts."""
        self._progress_to(time_ps)
        still = []
        for entry in self._under_way:
            operation, remaining = entry
            if remaining[0] > 0:
                still.append(entry)
                continue
            operation.end_ps = time_ps + operation.latency_ps
            if self._holds_completion and operation.latency_ps:
                heappush(self._held_until, operation.end_ps)
        self._under_way = still
        while self._held_until and self._held_until[0] <= time_ps:
            heappop(self._held_until)
        while self._queue and len(self._under_way) + len(self._held_until) < self._width:
            ready = self._queue[0].ready_ps
            assert ready is not None
            if ready > time_ps:
                break
            operation = self._queue.popleft()
            operation.start_ps = time_ps
            self._under_way.append((operation, [operation.transfer_ps * self._units]))
