"""Asynchronous training over parameter servers."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from pssim.clocks import WorkerClocks
from pssim.program import (
    ANY,
    Backward,
    Forward,
    Load,
    Program,
    Rank,
    Receive,
    Scheme,
    Send,
    StepCosts,
    Update,
    register,
)
from pssim.theory import parameter_server

__all__ = ["ParameterServer"]


@register("async", bound=None)
@register("ssp", bound=3)
class ParameterServer(Scheme):
    """Each worker pushes its own gradients to servers and pulls fresh weights, waiting for no other worker.

    Every bucket lives on one of ``servers`` servers, the largest buckets spread first.  A server
    applies a worker's gradients once all the buckets it holds have arrived, one worker after the
    other, and answers with its weights.  Servers are ``colocated`` with the first nodes' workers, one
    a node at most (access within a node is free, and serving takes nothing from the worker beside
    it), or ``dedicated`` to nodes of their own.

    With a ``bound`` a worker that is more than ``bound`` steps ahead of the slowest is answered only
    when that one has come closer (stale synchronous parallel).  Bound 0 has the step times of a
    barrier; without bound this is asynchronous SGD.

    Source: J. Dean et al., "Large scale distributed deep networks", NIPS 2012 (Downpour with a push
    and a pull every step); Q. Ho et al., "More effective distributed ML via a stale synchronous
    parallel parameter server", NIPS 2013 (bound, here on completed steps).
    """

    bound: int | None = Field(
        None,
        ge=0,
        le=10_000_000,
        description="completed steps a worker may be ahead of the slowest one; one that is further ahead is "
        "answered only when the slowest has come closer",
    )
    servers: int = Field(
        1,
        ge=1,
        le=100_000,
        description="servers that the buckets are spread over, the largest first, each bucket whole",
    )
    placement: Literal["colocated", "dedicated"] = Field(
        "colocated",
        description="colocated: on the nodes of the first workers, one a node at most; dedicated: on nodes "
        "of their own",
    )

    has_server: ClassVar[bool] = True

    def worker(self, rank: Rank) -> Program:
        """Push each bucket as it is ready, then take over what the servers answer."""
        for _ in rank.steps():
            yield Forward()
            for bucket in rank.buckets:
                yield Send((yield Backward(bucket)), to=rank.server(bucket))
            for server in rank.servers:
                yield Load((yield Receive(server)).value)

    def server(self, rank: Rank) -> Program:
        """Apply a worker's pushes when all are here; answer whoever is not too far ahead."""
        clocks = WorkerClocks(rank.workers)
        arrived: dict[int, list[object]] = {worker: [] for worker in rank.workers}
        held: list[int] = []
        while True:
            push = yield Receive(ANY)
            worker = push.source
            arrived[worker].append(push.value)
            if len(arrived[worker]) < rank.pushes():
                continue
            yield Update(arrived[worker])
            arrived[worker] = []
            moved = clocks.tick(worker)
            if self.bound is None or clocks.gap(worker) <= self.bound:
                yield Send(rank.weights, to=worker)
            else:
                held.append(worker)
            if moved and held:
                free = [other for other in held if clocks.gap(other) <= (self.bound or 0)]
                for other in free:
                    yield Send(rank.weights, to=other)
                held = [other for other in held if other not in free] if free else held

    def server_count(self) -> int:
        """The servers, of which those without a bucket do nothing."""
        return self.servers

    def dedicated_servers(self) -> bool:
        """Whether servers are on nodes of their own."""
        return self.placement == "dedicated"

    def step_time(self, costs: StepCosts) -> tuple[float, float, float]:
        """Mean step, and bounds it stays within, in seconds; the three are equal where it is exact."""
        return parameter_server(costs, bound=self.bound)
