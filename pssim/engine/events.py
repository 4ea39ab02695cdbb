"""The events engine: SimPy processes, one a rank.  The reference, and the one that runs everything.

Every rank's program is driven by a process of its own; collectives, channels, links and mailboxes
are shared state that those processes meet in.  Time is an integer number of picoseconds.  A run
ends when the last worker does; if nothing can happen any more before that, the error names every
rank that waits, what for and since when.
"""

from __future__ import annotations

import gc
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
from simpy import Event
from simpy.events import Timeout

from pssim.engine.clock import ComputeTable, to_ps
from pssim.engine.collectives import Collectives, charge_wait, succeed
from pssim.engine.environment import PicosecondEnvironment
from pssim.engine.guard import (
    ACTIONS_A_STEP,
    NotLockStep,
    cost_s,
    ended_early,
    failed,
    misused,
    not_a_gradient,
    not_an_action,
    started,
    too_many_actions,
)
from pssim.engine.job import Job
from pssim.engine.messages import Messages
from pssim.engine.payload import Tag, WeightsTag
from pssim.engine.rank import EventRank
from pssim.engine.record import (
    COMPUTE,
    EXTRA,
    UPDATE,
    RawLog,
    lags,
)
from pssim.engine.stall import stalled
from pssim.errors import PssimError, SchemeError
from pssim.program import ANY, AllReduce, Backward, Compute, Forward, Load, Message, Receive, Send, Update
from pssim.program import Wait as WaitAction

__all__ = ["simulate"]

_PAYLOAD = (Tag, WeightsTag)
# A rank that goes on for so long while no other comes to a boundary waits for one that hangs.
_STEPS_WITHOUT_THE_SLOWEST = 100_000


class _Events:
    """One run: the environment and what its ranks share."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.env = PicosecondEnvironment()
        self.table = ComputeTable(job.segments_s, job.jitter)
        self.rows: dict[int, tuple[list[list[int]], int]] = {}  # step -> durations by rank, ranks to come
        self.collectives = Collectives(self.env, job)
        self.workers = [EventRank(self, index) for index in range(job.ranks)]
        holding = [(index, held) for index, held in enumerate(job.shards) if held]
        self.servers = [
            EventRank(self, job.ranks + place, node=job.server_nodes[index], holds=held)
            for place, (index, held) in enumerate(holding)
        ]
        self.ranks = self.workers + self.servers
        for rank in self.ranks:
            rank.servers = range(job.ranks, len(self.ranks))
        self.server_of = {
            bucket.index: server.index for server in self.servers for bucket in server.holds
        }
        self.messages = Messages(self.env, self.ranks, job)
        self.staleness = [[0, 0, 0] for _ in range(job.steps + 1)]
        self.server_staleness: list[tuple[int, int, int, int]] = []
        self.tags = [Tag(bucket.index, bucket.size_bytes, 0) for bucket in job.workload.buckets]
        self.running = job.ranks
        self.ended = 0
        self.go_on = False
        self.marks = self.marks_seen = self.seen_at = 0
        self.free_running = False
        self.clock_gap_max: int | None = None
        self.done = Event(self.env)

    # ------------------------------------------------------------------------------ step boundaries

    def durations(self, rank: EventRank, step: int) -> list[int]:
        """The durations of this rank's segments in this step; a table is dropped when all had theirs."""
        if step not in self.rows:
            self.rows[step] = (self.table.step(step).T.tolist(), self.job.ranks)
        rows, to_come = self.rows[step]
        if to_come == 1:
            del self.rows[step]
        else:
            self.rows[step] = (rows, to_come - 1)
        return rows[rank.index]

    def marked(self, rank: EventRank) -> None:
        """A rank that goes on has come to a boundary again: has the slowest moved at all since?

        Raise StalledError if not, in so many steps that it never will.
        """
        if self.marks != self.marks_seen:
            self.marks_seen, self.seen_at = self.marks, rank.step
        elif rank.step - self.seen_at > _STEPS_WITHOUT_THE_SLOWEST:
            raise stalled(self.job.scheme, self.ranks, self.job.ranks, self.env.now)

    def finished(self, rank: EventRank) -> None:
        """A rank has taken its steps.

        With servers the run ends when the last one has, at the time of its last mark: whoever goes on
        may be held for a worker that has ended.  Without, it ends with the last program.
        """
        self.running -= 1
        if not self.job.scheme.has_server:
            return
        self.go_on = self.running > 0
        if self.running == 0:
            last_ps = max(worker.marks[-1] for worker in self.workers)
            timer = Timeout(self.env, max(0, last_ps - self.env.now))
            timer.callbacks.append(succeed(self.done))

    # ------------------------------------------------------------------------------------- the programs

    def drive(self, rank: EventRank, program: Any) -> Generator[Event, Any, None]:
        """Run one rank's program: one SimPy process.

        What a worker computes only concerns itself, so consecutive segments are one timeout: they are
        added up in ``rank.ahead_ps`` and slept off before the rank next meets anybody.
        """
        env, scheme, total = self.env, self.job.scheme, rank.total
        messages, collectives = self.messages, self.collectives
        timeout = Timeout
        tags = self.tags
        serving = bool(rank.holds)
        # advance(), written out here: it is called once an action.
        send, actions, step = program.send, 0, -1
        result: Any = None
        action: Any = None
        try:
            while True:
                try:
                    action = send(result)
                except StopIteration:
                    break
                except (PssimError, NotLockStep):
                    raise
                except (Exception, SystemExit) as error:
                    raise failed(scheme, error) from error
                result = None
                if step != rank.step:
                    step, actions = rank.step, 0
                actions += 1
                if actions > ACTIONS_A_STEP:
                    during = "since its last message" if serving else f"in step {step}"
                    raise too_many_actions(scheme, rank.name, during)
                kind = type(action)
                if kind is Backward:
                    bucket = action.bucket
                    index = bucket.index
                    duration = rank.row[index + 1]
                    total[COMPUTE] += duration
                    rank.ahead_ps += duration
                    version = rank.computed_on[index]
                    result = tags[index]
                    if result.version != version:
                        result = tags[index] = Tag(index, bucket.size_bytes, version)
                    continue
                if kind is Forward:
                    rank.computed_on = rank.versions[:]
                    duration = rank.row[0]
                    total[COMPUTE] += duration
                    rank.ahead_ps += duration
                    continue
                if kind is Update and not serving:
                    cost = self._update(rank, action.gradients)
                    total[UPDATE] += cost
                    rank.ahead_ps += cost
                    continue
                if rank.ahead_ps:
                    ahead, rank.ahead_ps = rank.ahead_ps, 0
                    yield timeout(env, ahead)
                if kind is AllReduce:
                    result = collectives.issue(rank, action.value)
                elif kind is WaitAction:
                    handles = action.handles
                    since = env.now
                    # The last ones first: by then the others have mostly ended too, and need no waking up.
                    for collective, _ in reversed(handles):
                        if collective.end_ps is None or collective.end_ps > env.now:
                            rank.blocked = ("wait", collective, since)
                            yield collective.done
                            rank.blocked = None
                    charge_wait(total, handles, since)
                    result = tuple([value for _, value in handles])
                elif kind is Send:
                    self._send(rank, action)
                elif kind is Receive:
                    since = env.now
                    actions = 0
                    delivery = messages.take(rank, action.source)
                    if delivery is None:
                        self._check_source(rank, action.source)
                        rank.blocked = ("receive", action.source, since)
                        yield messages.arrival(rank, action.source)
                        rank.blocked = None
                        delivery = messages.take(rank, action.source, settled=True)
                        assert delivery is not None
                    if not serving:
                        self.free_running = True
                        messages.charge(rank, delivery, since)
                    result = Message(delivery.source.index, delivery.value)
                elif kind is Update:
                    since = env.now
                    cost = self._update(rank, action.gradients)
                    if cost:
                        yield timeout(env, cost)
                    messages.updated(rank, since, len(action.gradients))
                elif kind is Load:
                    versions = rank.versions
                    for index, version in action.weights.versions:
                        versions[index] = version
                elif kind is Compute:
                    extra_s = cost_s(scheme, action)
                    if serving:
                        rank.ahead_ps += to_ps(extra_s)
                    else:
                        duration = int(self.table.extra(extra_s, rank.step)[rank.index])
                        total[COMPUTE] += duration
                        total[EXTRA] += duration
                        rank.ahead_ps += duration
                else:
                    raise not_an_action(scheme, action)
        except (PssimError, NotLockStep):
            raise
        except Exception as error:
            raise misused(scheme, action, error) from error
        if rank.ahead_ps:
            yield timeout(env, rank.ahead_ps)
        if not serving and len(rank.marks) != self.job.steps + 1:
            raise ended_early(scheme, rank.name, rank.step, self.job.steps)
        self.ended += not serving
        if self.ended == self.job.ranks and not scheme.has_server:
            self.done.succeed()

    def _update(self, rank: EventRank, gradients: Sequence[Any]) -> int:
        """The weights of some buckets move by one version; gives what that takes, in picoseconds."""
        update_ps, versions, cost = self.job.update_ps, rank.versions, 0
        weighted = size = worst = 0
        for tag in gradients:
            if type(tag) is not Tag:
                raise not_a_gradient(self.job.scheme, "Update", tag)
            index = tag.bucket
            staleness = versions[index] - tag.version
            versions[index] += 1
            weighted += staleness * tag.size_bytes
            size += tag.size_bytes
            if staleness > worst:
                worst = staleness
            cost += update_ps[index]
        if rank.holds:
            self.server_staleness.append((self.env.now, weighted, size, worst))
        else:
            row = self.staleness[min(rank.step, self.job.steps)]
            row[0] += weighted
            row[1] += size
            if worst > row[2]:
                row[2] = worst
        return cost

    def _check_source(self, rank: EventRank, source: Any) -> None:
        if source is ANY or (type(source) is int and 0 <= source < len(self.ranks)):
            return
        raise SchemeError(
            f"{type(self.job.scheme).__name__}: Receive({source!r}) by {rank.name}: no such address, "
            f"it must be ANY or 0 to {len(self.ranks) - 1}"
        )

    def _send(self, rank: EventRank, action: Send) -> None:
        if type(action.value) not in _PAYLOAD:
            raise not_a_gradient(self.job.scheme, "Send", action.value)
        if not (isinstance(action.to, int) and 0 <= action.to < len(self.ranks)):
            raise SchemeError(
                f"{type(self.job.scheme).__name__}: Send(to={action.to!r}) by {rank.name}: there is no such "
                f"address, they are 0 to {len(self.ranks) - 1}"
            )
        gap = self.messages.send(rank, self.ranks[action.to], action.value)
        if gap is not None and (self.clock_gap_max is None or gap > self.clock_gap_max):
            self.clock_gap_max = gap

    # ----------------------------------------------------------------------------------------- the run

    def run(self) -> RawLog:
        env, scheme = self.env, self.job.scheme
        for rank in self.workers:
            env.process(self.drive(rank, started(scheme, "worker", scheme.worker(rank))))
        for rank in self.servers:
            env.process(self.drive(rank, started(scheme, "server", scheme.server(rank))))
        collecting = gc.isenabled()
        gc.disable()  # nothing here is cyclic garbage while the run lasts, and SimPy makes many objects
        try:
            env.run(until=self.done)
        except RuntimeError as error:
            if "No scheduled events left" in str(error):
                raise stalled(self.job.scheme, self.ranks, self.job.ranks, env.now) from None
            raise
        finally:
            if collecting:
                gc.enable()
        return self._log()

    def _log(self) -> RawLog:
        steps = self.job.steps
        begun = self.collectives.begun
        left_open = self.collectives.drain()  # what is still in flight is not applied
        if left_open is not None:
            raise stalled(self.job.scheme, self.ranks, self.job.ranks, self.env.now, left_open)
        last_of_step = {op.step: (op, op.arrived_sum_ps) for op in begun}
        # (steps + 1, ROWS, ranks)
        totals = np.array([rank.snapshots for rank in self.workers], dtype=np.int64).transpose(1, 2, 0)
        return RawLog(
            engine="events",
            marks_ps=np.array([rank.marks for rank in self.workers], dtype=np.int64).T,
            snapshots={step: totals[step] for step in range(steps + 1)},
            intervals_ps=[(op.start_ps or 0, op.end_ps or 0) for op in begun],
            lag_ps=lags([last_of_step.get(step) for step in range(steps)], self.job.ranks),
            staleness=np.array(self.staleness[:steps], dtype=np.int64),
            collective_bytes=self.collectives.bytes_per_step[:steps],
            free_running=self.free_running,
            server_staleness=np.array(self.server_staleness, dtype=np.int64).reshape(-1, 4),
            messages=np.array(self.messages.log, dtype=np.int64).reshape(-1, 4),
            clock_gap_max=self.clock_gap_max,
        )


def simulate(job: Job) -> RawLog:
    """Run the job on an event queue.  Raise StalledError if it cannot progress."""
    return _Events(job).run()
