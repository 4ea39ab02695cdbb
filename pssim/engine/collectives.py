"""Collectives under the events engine: where ranks meet, and what each one waited for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from simpy import Event
from simpy.events import Timeout

from pssim.engine.clock import to_ps
from pssim.engine.environment import PicosecondEnvironment
from pssim.engine.guard import not_a_gradient
from pssim.engine.job import Job
from pssim.engine.payload import Tag
from pssim.engine.rank import EventRank
from pssim.engine.record import QUEUE, TRANSFER, WAIT
from pssim.errors import SchemeError
from pssim.network import Channel, Operation

__all__ = ["Collective", "Collectives", "charge_wait", "succeed"]


class Collective(Operation):
    """An all-reduce that ranks arrive at one by one."""

    __slots__ = ("arrived", "arrived_sum_ps", "done", "index", "issuer", "size_bytes", "step")

    def __init__(
        self, env: PicosecondEnvironment, index: int, issuer: EventRank, size_bytes: int, job: Job
    ) -> None:
        cost = job.all_reduce(size_bytes)
        super().__init__(to_ps(cost.transfer_s), to_ps(cost.latency_s))
        self.index = index
        self.issuer = issuer
        self.size_bytes = size_bytes
        self.step = issuer.step
        self.arrived = 0
        self.arrived_sum_ps = 0
        self.done = Event(env)


class Collectives:
    """All collectives of a run, in issue order, and the channel they go through."""

    def __init__(self, env: PicosecondEnvironment, job: Job) -> None:
        self._env = env
        self._job = job
        self._channel = Channel(job.network.channel_width, job.network.holds_completion)
        self._stamp = 0
        self._unsettled: list[Collective] = []  # offered, but their end is not known yet
        self.begun: list[Collective] = []
        self.bytes_per_step = np.zeros(job.steps + 1)

    def issue(self, rank: EventRank, value: Any) -> tuple[Collective, Tag]:
        """A rank arrives at its next collective; the last one to arrive makes it ready."""
        if not isinstance(value, Tag):
            raise not_a_gradient(self._job.scheme, "AllReduce", value)
        if rank.holds:
            raise SchemeError(
                f"{type(self._job.scheme).__name__}: {rank.name} yielded AllReduce, which is for workers"
            )
        number = rank.issued
        rank.issued = number + 1
        if number == len(self.begun):
            collective = Collective(self._env, number, rank, value.size_bytes, self._job)
            self.begun.append(collective)
            cost = self._job.all_reduce(value.size_bytes)
            self.bytes_per_step[min(rank.step, self._job.steps)] += cost.bytes_per_rank
        else:
            collective = self.begun[number]
            if collective.size_bytes != value.size_bytes:
                raise SchemeError(
                    f"collectives do not match: all-reduce number {number} is of {value.size_bytes} bytes on "
                    f"{rank.name} and of {collective.size_bytes} bytes on {collective.issuer.name}; "
                    "every rank must issue the same ones in the same order"
                )
        now = self._env.now
        collective.arrived += 1
        collective.arrived_sum_ps += now
        if collective.arrived == self._job.ranks:
            collective.ready_ps = now
            self._channel.offer(collective)
            self._unsettled.append(collective)
            self._catch_up()
        return collective, value

    def _catch_up(self) -> None:
        """Let the channel catch up, announce the ends it knows, and wake up for its next change."""
        env = self._env
        if self._job.network.channel_width > 1:
            self._channel.advance(env.now)
        waiting = []
        for collective in self._unsettled:
            if collective.end_ps is None:
                waiting.append(collective)
                continue
            timer = Timeout(env, collective.end_ps - env.now)
            timer.callbacks.append(succeed(collective.done))
        self._unsettled = waiting
        if waiting:
            change = self._channel.next_change_ps()
            assert change is not None
            self._stamp += 1
            timer = Timeout(env, change - env.now, self._stamp)
            timer.callbacks.append(self._on_timer)

    def _on_timer(self, timer: Event) -> None:
        if timer.value == self._stamp:  # a later offer has set a newer timer otherwise
            self._catch_up()

    def drain(self) -> Collective | None:
        """Settle what is still in flight; gives a collective that some rank never joined, if there is one."""
        for collective in self.begun:
            if collective.ready_ps is None:
                return collective
            self._channel.settle(collective)
        return None


def charge_wait(total: list[int], handles: Sequence[Any], clock: int) -> None:
    """Charge what a rank blocked for, handle by handle, each only for the time after the one before."""
    for collective, _ in handles:
        end = collective.end_ps
        if end > clock:
            ready, start = collective.ready_ps, collective.start_ps
            if ready > clock:
                total[WAIT] += ready - clock
                clock = ready
            if start > clock:
                total[QUEUE] += start - clock
                clock = start
            total[TRANSFER] += end - clock
            clock = end


def succeed(event: Event) -> Callable[[Event], None]:
    """A callback that lets ``event`` happen."""

    def callback(_: Event) -> None:
        event.succeed()

    return callback
