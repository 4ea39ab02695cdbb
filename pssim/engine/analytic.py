"""The analytic engine: a scheme's closed form, on plain floats."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import inf, isinf, sqrt

from pssim.cluster.jitter import log_normal_sigma
from pssim.engine.guard import failed
from pssim.engine.job import Job
from pssim.errors import PssimError, SchemeError
from pssim.program import NoClosedForm, ServerCosts, StepCosts
from pssim.theory import Slowest, slowest_factor

__all__ = ["Estimate", "estimate", "unsupported"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A step in seconds: its mean, and bounds it stays within; all three are equal where it is exact.

    ``alone_s`` is a rank's step without communication.
    """

    step_s: float
    low_s: float
    high_s: float
    compute_s: float
    update_s: float

    @property
    def alone_s(self) -> float:
        """Compute and update."""
        return self.compute_s + self.update_s


def unsupported(job: Job) -> list[str]:
    """Why there is no closed form for the job; empty where there is one."""
    try:
        estimate(job)
    except NoClosedForm as error:
        return [str(error)]
    return []


def estimate(job: Job) -> Estimate:
    """The closed form of the job's scheme.  Raise NoClosedForm, with the reason, if it has none."""
    costs = step_costs(job)
    try:
        step, low, high = (float(seconds) for seconds in job.scheme.step_time(costs))
    except (PssimError, NoClosedForm):
        raise
    except (Exception, SystemExit) as error:
        raise failed(job.scheme, error, "step_time()") from error
    if not 0.0 <= low <= step <= high < inf:
        raise SchemeError(
            f"step_time() of {type(job.scheme).__name__} must give a step in seconds, and a lower and an "
            f"upper bound of it, it gave {step!r}, {low!r}, {high!r}"
        )
    return Estimate(step, low, high, costs.ready_s[-1], costs.update_s)


def step_costs(job: Job) -> StepCosts:
    """What the scheme's closed form gets."""
    workload = job.workload
    forward, *backward = job.segments_s
    alike = job.jitter.slowdown
    if alike is not None and job.jitter.jitter:
        raise NoClosedForm("ranks of different speed with jitter have no closed form")
    ready = list(accumulate(backward, initial=forward))[1:]
    reduced = [job.all_reduce(bucket.size_bytes) for bucket in workload.buckets]

    def slowest_of(steps: float) -> Slowest:
        if alike is not None:
            return Slowest((max(alike),), (1.0,))
        jitter = job.jitter.jitter
        averaged = 0.0 if isinf(steps) else 1.0 / sqrt(steps)
        rank = sqrt(
            log_normal_sigma(jitter.persistent) ** 2 + (averaged * log_normal_sigma(jitter.independent)) ** 2
        )
        node = averaged * log_normal_sigma(jitter.node)
        # Means over several steps only serve the approximation, where a coarse grid will do.
        points = 2001 if steps == 1 or isinf(steps) else 301
        return slowest_factor(job.placement.ranks_per_node, rank, node, points)

    return StepCosts(
        ranks=job.ranks,
        ready_s=tuple(ready),
        update_s=workload.update_s,
        transfer_s=tuple(cost.transfer_s for cost in reduced),
        latency_s=tuple(cost.latency_s for cost in reduced),
        channel_width=job.network.channel_width,
        holds_completion=job.network.holds_completion,
        slowest_of=slowest_of,
        variance_per_step=(1 + job.jitter.jitter.node**2) * (1 + job.jitter.jitter.independent**2) - 1,
        servers=_server_costs(job) if job.server_nodes else None,
    )


def _server_costs(job: Job) -> ServerCosts:
    link = job.network.link
    shards = [(node, held) for node, held in zip(job.server_nodes, job.shards, strict=True) if held]
    server_of = {bucket.index: server for server, (_, held) in enumerate(shards) for bucket in held}
    total = sum(bucket.size_bytes for bucket in job.workload.buckets)
    buckets = job.workload.buckets
    pushes = [link.transfer_s(bucket.size_bytes) for bucket in buckets]

    def shares(size_bytes: int) -> float:
        return size_bytes / total if total else 1 / len(buckets)

    return ServerCosts(
        latency_s=link.latency_s,
        push_s=tuple(sum(pushes[bucket.index] for bucket in held) for _, held in shards),
        pull_s=tuple(link.transfer_s(sum(bucket.size_bytes for bucket in held)) for _, held in shards),
        serve_s=tuple(
            sum(job.workload.update_s * shares(bucket.size_bytes) for bucket in held) for _, held in shards
        ),
        local=tuple(job.placement.node_of_rank.count(node) for node, _ in shards),
        bucket_server=tuple(server_of[bucket.index] for bucket in buckets),
        bucket_push_s=tuple(pushes),
    )
