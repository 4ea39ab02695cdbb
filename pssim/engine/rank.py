"""A rank under the events engine: what its program sees, and what the engine keeps for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pssim.engine.guard import NoStepYet, steps_once
from pssim.engine.payload import WeightsTag
from pssim.engine.record import ROWS
from pssim.errors import SchemeError
from pssim.program import BucketView
from pssim.workload.step import Bucket

if TYPE_CHECKING:
    from pssim.engine.events import _Events

__all__ = ["EventRank"]


class EventRank:
    """A worker (addresses 0 to world - 1) or a server (the addresses after them)."""

    __slots__ = (
        "_held", "_held_bytes", "_run", "ahead_ps", "blocked", "buckets", "computed_on", "holds", "index",
        "issued", "marks",
        "name", "node", "row", "servers", "snapshots", "step", "total", "versions", "workers", "world",
    )  # fmt: skip

    def __init__(
        self, run: _Events, index: int, *, node: int | None = None, holds: tuple[Bucket, ...] = ()
    ) -> None:
        job = run.job
        self._run = run
        self.index = index
        self.world = job.ranks
        self.holds = holds
        self.node: int = job.placement.node_of_rank[index] if node is None else node
        self.buckets: Sequence[Bucket] = holds or job.workload.buckets
        self._held = [bucket.index for bucket in self.buckets]
        self._held_bytes = sum(bucket.size_bytes for bucket in self.buckets)
        self.servers = range(job.ranks, job.ranks)
        """The addresses of all servers."""
        self.workers = range(job.ranks)
        """The addresses of all workers."""
        self.name = f"server {index - job.ranks}" if holds else f"rank {index}"
        self.step = 0
        self.issued = 0
        self.ahead_ps = 0  # computed, but not slept off yet
        self.row: list[int] | NoStepYet = NoStepYet(job.scheme, self.name)
        self.versions = [0] * len(job.workload.buckets)
        self.computed_on = self.versions[:]
        self.total = [0] * ROWS
        self.marks: list[int] = []
        self.snapshots: list[tuple[int, ...]] = []
        self.blocked: tuple[str, Any, int] | None = None

    def server(self, bucket: BucketView) -> int:
        """The address of the server that holds ``bucket``."""
        return self._run.server_of[bucket.index]

    def pushes(self) -> int:
        """How many pushes make up one step of one worker on this server."""
        return len(self.holds)

    @property
    def weights(self) -> WeightsTag:
        """The weights this rank holds, each bucket with its version."""
        versions = self.versions
        return WeightsTag(tuple([(index, versions[index]) for index in self._held]), self._held_bytes)

    def steps(self) -> Iterator[int]:
        """The steps to take; each ``next`` is the step boundary."""
        run = self._run
        if self.holds:
            raise SchemeError(
                f"{type(run.job.scheme).__name__}: {self.name} asked for steps, a server has none"
            )
        if self.marks:
            raise steps_once(run.job.scheme, self.name)
        for step in range(run.job.steps):
            self.step = step
            self.marks.append(run.env.now + self.ahead_ps)
            self.snapshots.append(tuple(self.total))
            self.row = run.durations(self, step)
            run.marks += 1
            yield step
        self.marks.append(run.env.now + self.ahead_ps)
        self.snapshots.append(tuple(self.total))
        # Where ranks run freely, a rank that has taken its steps keeps the servers and links as busy as
        # before until the slowest rank has taken its own, so that every rank is measured among all.
        self.step = run.job.steps
        run.finished(self)
        while run.go_on:
            self.step += 1
            run.marked(self)
            self.row = run.table.row(self.index, self.step)
            yield self.step
