"""A job: everything an engine needs to run one scheme at one size once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from pssim.cluster import JitterSource, Placement
from pssim.engine.clock import to_ps
from pssim.errors import InputError
from pssim.network import CollectiveCost, Network
from pssim.program import Scheme
from pssim.workload.step import Bucket, StepWorkload

__all__ = ["Job", "check_horizon", "server_nodes", "shard"]

LONGEST_RUN_S = 2e6
_BEHIND = {
    "computing": "workload.device, training.batch_per_rank, workload.accumulation_steps",
    "updating": "workload.update, workload.device",
    "communicating": "cluster.link, cluster.local_link",
}


@dataclass(frozen=True)
class Job:
    """One replication of one scheme on one cluster size.

    ``server_nodes`` gives the node of each server (empty for schemes without); numbers that no
    worker's node has are nodes of their own.
    """

    label: str
    scheme: Scheme
    placement: Placement
    workload: StepWorkload
    network: Network
    jitter: JitterSource
    steps: int
    server_nodes: tuple[int, ...] = ()

    @property
    def ranks(self) -> int:
        """How many workers there are."""
        return self.placement.ranks

    @property
    def segments_s(self) -> tuple[float, ...]:
        """Forward, then backward up to each bucket, without jitter, in seconds."""
        return (self.workload.forward_s, *(bucket.backward_s for bucket in self.workload.buckets))

    @cached_property
    def update_ps(self) -> tuple[int, ...]:
        """What the update of each bucket takes: the whole update's time, split by bytes."""
        buckets = self.workload.buckets
        total = sum(bucket.size_bytes for bucket in buckets)
        return tuple(
            to_ps(self.workload.update_s * (bucket.size_bytes / total if total else 1 / len(buckets)))
            for bucket in buckets
        )

    def all_reduce(self, size_bytes: int) -> CollectiveCost:
        """The cost of an all-reduce of this many bytes over all workers."""
        return self.network.all_reduce(size_bytes, self.placement.ranks_per_node)

    @cached_property
    def shards(self) -> tuple[tuple[Bucket, ...], ...]:
        """The buckets each server holds."""
        return shard(self.workload.buckets, len(self.server_nodes))


def check_horizon(job: Job) -> None:
    """Raise InputError if the run would take more simulated time than 64 bits of picoseconds hold.

    With room for jitter and for waiting: at most 2 million seconds without either.
    """
    workload = job.workload
    parts = {
        "computing": sum(job.segments_s),
        "updating": workload.update_s,
        "communicating": sum(job.all_reduce(bucket.size_bytes).total_s for bucket in workload.buckets),
    }
    if job.server_nodes:
        sent = sum(bucket.size_bytes for bucket in workload.buckets)
        parts["updating"] *= job.ranks
        one_way = job.network.link.transfer_s(sent) + job.network.link.latency_s
        parts["communicating"] = 2 * job.ranks * one_way
    total = job.steps * sum(parts.values())
    if not total <= LONGEST_RUN_S:
        worst = max(parts, key=lambda part: parts[part])
        raise InputError(
            f"{job.label} on {job.ranks} ranks: {job.steps} steps must take at most {LONGEST_RUN_S:g} s of "
            f"simulated time, they would take {total:.3g} s, most of it {worst}; take fewer steps, or check "
            f"the settings behind that ({_BEHIND[worst]})"
        )


def shard(buckets: tuple[Bucket, ...], servers: int) -> tuple[tuple[Bucket, ...], ...]:
    """Buckets spread over servers: the largest first, each to the server with fewest bytes so far."""
    if servers == 0:
        return ()
    held: list[list[Bucket]] = [[] for _ in range(servers)]
    load = [0] * servers
    for bucket in sorted(buckets, key=lambda bucket: (-bucket.size_bytes, bucket.index)):
        # Fewest buckets breaks the tie between servers that hold no bytes yet (zero-byte buckets).
        server = min(range(servers), key=lambda server: (load[server], len(held[server]), server))
        held[server].append(bucket)
        load[server] += bucket.size_bytes
    return tuple(tuple(sorted(mine, key=lambda bucket: bucket.index)) for mine in held)


def server_nodes(servers: int, dedicated: bool, nodes: int) -> tuple[int, ...]:
    """The node of each server: the workers' nodes, one server each at most, or nodes of their own."""
    if dedicated:
        return tuple(range(nodes, nodes + servers))
    return tuple(range(min(servers, nodes)))
