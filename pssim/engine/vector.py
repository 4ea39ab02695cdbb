"""The vector engine: one program drives all ranks in lock step, with a clock each.

Where every rank follows the same program whatever its number, one generator is enough: ``Compute``
adds to a vector of clocks, a collective takes its maximum, ``Wait`` the elementwise maximum with a
scalar.  The clocks are a plain integer as long as all ranks agree.  A program that reads what
differs between ranks raises :class:`NotLockStep`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from pssim.engine.clock import ComputeTable, to_ps
from pssim.engine.guard import (
    ACTIONS_A_STEP,
    ENDED,
    NoStepYet,
    NotLockStep,
    advance,
    asked,
    cost_s,
    ended_early,
    misused,
    not_a_gradient,
    not_an_action,
    started,
    steps_once,
    too_many_actions,
)
from pssim.engine.job import Job
from pssim.engine.measure import snapshot_steps
from pssim.engine.payload import Tag
from pssim.engine.record import (
    COMPUTE,
    EXTRA,
    QUEUE,
    ROWS,
    TRANSFER,
    UPDATE,
    WAIT,
    IntArray,
    RawLog,
    lags,
)
from pssim.errors import PssimError
from pssim.network import Channel, Operation
from pssim.program import AllReduce, Backward, Compute, Forward, Load, Receive, Send, Update
from pssim.program import Wait as WaitAction
from pssim.workload.step import Bucket

__all__ = ["NotLockStep", "simulate", "unsupported"]


# What a rank offers that is not the same on all of them.
_DIFFERS = ("index", "node", "pushes", "server", "servers", "weights", "workers")


class _LockStepRank:
    """The rank a program sees: all of them at once."""

    def __init__(self, job: Job, begin_step: Any) -> None:
        self.buckets: Sequence[Bucket] = job.workload.buckets
        self.world = job.ranks
        self._steps = job.steps
        self._begin_step = begin_step

    def steps(self) -> Iterator[int]:
        for step in range(self._steps):
            self._begin_step(step)
            yield step
        self._begin_step(self._steps)

    def __getattr__(self, name: str) -> NoReturn:
        if name not in _DIFFERS:
            raise AttributeError(f"a rank has no {name!r}")
        raise NotLockStep(f"the program reads rank.{name}, which differs between ranks")


def unsupported(job: Job) -> list[str]:
    """Why this engine cannot run the job; empty where it can, as far as two steps of the program show."""
    if job.scheme.has_server:
        return ["the scheme has servers, whose ranks do not run in lock step"]
    trial = _Vector(job, steps=min(job.steps, 2))
    try:
        trial.run()
    except NotLockStep as error:
        return [str(error)]
    return []


def simulate(job: Job) -> RawLog:
    """Run the job.  Raise NotLockStep if the program turns out to depend on the rank."""
    return _Vector(job, steps=job.steps).run()


class _Vector:
    def __init__(self, job: Job, steps: int) -> None:
        self.job = job
        self.steps = steps
        ranks = job.ranks
        self.clock: IntArray | int = 0
        self.table = ComputeTable(job.segments_s, job.jitter)
        self.channel = Channel(job.network.channel_width, job.network.holds_completion)
        self.total = np.zeros((ROWS, ranks), dtype=np.int64)
        # While all clocks agree, parts are equal on all ranks too and are kept as plain integers.
        self.common = [0] * ROWS
        self.marks = np.zeros((steps + 1, ranks), dtype=np.int64)
        scheme = job.scheme
        kept = snapshot_steps(steps, asked(scheme, "pattern", 1), asked(scheme, "warm_up", 0))
        self.kept = frozenset(kept)
        self.snapshots: dict[int, IntArray] = {}
        self.operations: list[Operation] = []
        self.last_issue: tuple[Operation, IntArray | int] | None = None
        self.last_of_step: list[tuple[Operation, int] | None] = []
        # One row more than steps: what a program still does after its last step is not measured.
        self.staleness = np.zeros((steps + 1, 3), dtype=np.int64)
        self.collective_bytes = np.zeros(steps + 1)
        self.durations: IntArray | NoStepYet = NoStepYet(scheme, "the program")
        self.step = -1
        self.complete = False
        self.actions = 0

    # ------------------------------------------------------------------------------ step boundaries

    def _begin_step(self, step: int) -> None:
        if step == 0 and self.step >= 0:
            raise steps_once(self.job.scheme, "the program")
        if step:
            self.last_of_step.append(self._last_arrivals())
        self.marks[step] = self.clock
        if step in self.kept:
            self.snapshots[step] = self.total + np.array(self.common, dtype=np.int64)[:, None]
        self.step = step
        self.actions = 0
        self.complete = step == self.steps
        if step < self.steps:
            self.durations = self.table.step(step)

    def _last_arrivals(self) -> tuple[Operation, int] | None:
        """The last collective issued in the step that ends, and the sum over ranks of when."""
        if self.last_issue is None:
            return None
        operation, arrivals = self.last_issue
        self.last_issue = None
        if isinstance(arrivals, int):
            return operation, arrivals * self.job.ranks
        return operation, int(arrivals.sum())

    # -------------------------------------------------------------------------------------- actions

    def _busy(self, part: int, duration: IntArray | int) -> None:
        """All ranks are busy for ``duration``."""
        if isinstance(duration, int):
            self.common[part] += duration
        else:
            self.total[part] += duration
        self.clock = self.clock + duration

    def _wait(self, operation: Operation) -> None:
        """All ranks block until ``operation`` is done; who blocked for what is charged."""
        end = self.channel.settle(operation)
        ready, start = operation.ready_ps, operation.start_ps
        assert ready is not None
        assert start is not None
        clock = self.clock
        if isinstance(clock, int):
            if end > clock:
                self.common[WAIT] += max(ready - clock, 0)
                self.common[QUEUE] += max(start - max(clock, ready), 0)
                self.common[TRANSFER] += end - max(clock, start)
                self.clock = end
            return
        if end <= clock.min():
            return
        # From here on every rank's clock is at most `moved`; those that are later do not block.
        until_ready, until_start, moved = (np.maximum(clock, time) for time in (ready, start, end))
        self.total[WAIT] += until_ready - clock
        self.total[QUEUE] += until_start - until_ready
        self.total[TRANSFER] += moved - until_start
        self.clock = end if end >= clock.max() else moved

    def _issue(self, value: Any) -> tuple[Operation, Tag]:
        if not isinstance(value, Tag):
            raise not_a_gradient(self.job.scheme, "AllReduce", value)
        cost = self.job.all_reduce(value.size_bytes)
        operation = Operation(to_ps(cost.transfer_s), to_ps(cost.latency_s))
        clock = self.clock
        operation.ready_ps = clock if isinstance(clock, int) else int(clock.max())
        self.channel.offer(operation)
        self.operations.append(operation)
        self.last_issue = (operation, clock)
        self.collective_bytes[self.step] += cost.bytes_per_rank
        return operation, value

    def _update(self, gradients: Sequence[Any], versions: list[int]) -> None:
        ranks, stale, cost = self.job.ranks, self.staleness[self.step], 0
        for tag in gradients:
            if not isinstance(tag, Tag):
                raise not_a_gradient(self.job.scheme, "Update", tag)
            staleness = versions[tag.bucket] - tag.version
            stale[0] += staleness * tag.size_bytes * ranks
            stale[1] += tag.size_bytes * ranks
            stale[2] = max(stale[2], staleness)
            versions[tag.bucket] += 1
            cost += self.job.update_ps[tag.bucket]
        self._busy(UPDATE, cost)

    # ---------------------------------------------------------------------------------------- the run

    def run(self) -> RawLog:
        job = self.job
        rank = _LockStepRank(job, self._begin_step)
        rank._steps = self.steps
        program = started(job.scheme, "worker", job.scheme.worker(rank))
        versions = [0] * len(job.workload.buckets)
        computed_on = versions[:]
        result: Any = None
        action: Any = None
        try:
            while (action := advance(program, result, job.scheme)) is not ENDED:
                result = None
                self.actions += 1
                if self.actions > ACTIONS_A_STEP:
                    raise too_many_actions(job.scheme, "the program", f"in step {self.step}")
                kind = type(action)
                if kind is Backward:
                    bucket = action.bucket
                    self._busy(COMPUTE, self.durations[bucket.index + 1])
                    result = Tag(bucket.index, bucket.size_bytes, computed_on[bucket.index])
                elif kind is AllReduce:
                    result = self._issue(action.value)
                elif kind is WaitAction:
                    for operation, _ in action.handles:
                        self._wait(operation)
                    result = tuple(value for _, value in action.handles)
                elif kind is Update:
                    self._update(action.gradients, versions)
                elif kind is Forward:
                    computed_on = versions[:]
                    self._busy(COMPUTE, self.durations[0])
                elif kind is Compute:
                    extra = self.table.extra(cost_s(job.scheme, action), self.step)
                    self._busy(COMPUTE, extra)
                    self.total[EXTRA] += extra
                elif kind in (Send, Receive, Load):
                    raise NotLockStep(f"the program uses {kind.__name__}, which is between single ranks")
                else:
                    raise not_an_action(job.scheme, action)
        except (PssimError, NotLockStep):
            raise
        except Exception as error:
            raise misused(job.scheme, action, error) from error
        if not self.complete:
            raise ended_early(job.scheme, "the program", max(self.step, 0), self.steps)
        return self._log()

    def _log(self) -> RawLog:
        for operation in self.operations:  # those still in flight are drained, not applied
            self.channel.settle(operation)
        return RawLog(
            engine="vector",
            marks_ps=self.marks,
            snapshots=self.snapshots,
            intervals_ps=[(op.start_ps or 0, op.end_ps or 0) for op in self.operations],
            lag_ps=lags(self.last_of_step, self.job.ranks),
            staleness=self.staleness[: self.steps],
            collective_bytes=self.collective_bytes[: self.steps],
            free_running=False,
        )
