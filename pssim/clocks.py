"""Clocks: how many steps each worker has completed, and how far the slowest has come."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["WorkerClocks"]


class WorkerClocks:
    """The completed steps of each worker, with the least of them at hand in constant time."""

    def __init__(self, workers: Iterable[int]) -> None:
        self._clock = dict.fromkeys(workers, 0)
        self._at = {0: len(self._clock)}
        self.slowest = 0

    def __getitem__(self, worker: int) -> int:
        return self._clock[worker]

    def tick(self, worker: int) -> bool:
        """One more step of ``worker``; gives whether the slowest has moved on by it."""
        clocks, at = self._clock, self._at
        clock = clocks[worker]
        clocks[worker] = clock + 1
        at[clock + 1] = at.get(clock + 1, 0) + 1
        left = at[clock] = at[clock] - 1
        if left or clock > self.slowest:
            return False
        del at[clock]
        self.slowest = clock + 1
        return True

    def gap(self, worker: int) -> int:
        """How many steps ``worker`` is ahead of the slowest."""
        return self._clock[worker] - self.slowest
