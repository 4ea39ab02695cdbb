"""The step time of workers of parameter servers."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from pssim.program import NoClosedForm, ServerCosts, StepCosts

__all__ = ["parameter_server"]


def parameter_server(costs: StepCosts, *, bound: int | None) -> tuple[float, float, float]:
    """The step time of workers that push to servers and wait for their answer, mean over workers.

    Exact (all three equal) for one worker alone, and where a serial server never idles: if even the
    longest way round the rest of a cycle takes less than serving the other workers, every cycle is
    ranks x service.  Elsewhere, the asymptotic bounds of closed queueing networks (E. Lazowska et al.,
    "Quantitative System Performance", 1984, section 5.2): no cycle is shorter than a worker alone, nor
    are ranks cycles shorter than ranks x the busiest resource; and none is longer than if every other
    worker were ahead at every resource.  The approximation between them is mean value analysis of the
    busiest server's link in and link out; the update, serial and of constant length, queues so little
    that the bound, ranks x service, says more.  A run without any variation may lock into a phase and
    be far from it, for ever.  With bound 0 workers start together, which is how it is estimated.
    """
    servers = costs.servers
    if servers is None:
        raise NoClosedForm("a parameter server needs the costs of its servers")
    ranks, compute = costs.ranks, costs.ready_s[-1]
    remote_alone = _alone(costs, servers, local=frozenset())
    local_counts = sum(servers.local)
    alone_local = [
        _alone(costs, servers, local=frozenset({server}))
        for server, workers in enumerate(servers.local)
        if workers
    ]
    jitterless = costs.slowest_of(1.0).mean == 1.0
    if ranks == 1 and jitterless:
        alone = alone_local[0] if alone_local else remote_alone
        return alone, alone, alone
    remote = [ranks - workers for workers in servers.local]
    longest_way = compute + 2 * servers.latency_s + sum(
        most * (len(costs.ready_s) * max(push, default=0.0) + len(servers.pull_s) * pull)
        for most, push, pull in zip(remote, _pushes(servers), servers.pull_s, strict=True)
    )
    busiest = max(servers.serve_s)
    if jitterless and len(servers.serve_s) == 1 and bound != 0 and (ranks - 1) * busiest >= longest_way:
        return ranks * busiest, ranks * busiest, ranks * busiest
    # Cycles of remote workers are bounded by the links as well; local ones only by their own pace.
    fastest = min([remote_alone, *alone_local])
    low = max(fastest, ranks * busiest)
    for most, push, pull in zip(remote, servers.push_s, servers.pull_s, strict=True):
        others = ranks - most
        low = max(low, (most * most * max(push, pull) + others * fastest) / ranks)
    if not local_counts:
        low = max(low, remote_alone)
    high = longest_way + ranks * sum(servers.serve_s)
    slowest = costs.slowest_of(inf).mean
    high += (slowest - 1.0) * compute
    if bound is not None and not jitterless:
        high += (costs.slowest_of(1.0).mean - 1.0) * compute
    high = max(low, high)
    if bound == 0:
        cycle = _in_phase(costs, servers, remote)
    else:
        cycle = max(
            _mean_value(ranks, remote_alone, (push * most / ranks, pull * most / ranks))
            for most, push, pull in zip(remote, servers.push_s, servers.pull_s, strict=True)
        )
    return min(max(low, cycle), high), low, high


def _in_phase(costs: StepCosts, servers: ServerCosts, remote: Sequence[int]) -> float:
    """The step of workers that all start together: everybody at once, or the slowest after all others."""
    ranks, slowest = costs.ranks, costs.slowest_of(1.0).mean
    ends = []
    for server, (most, serve, pull) in enumerate(
        zip(remote, servers.serve_s, servers.pull_s, strict=True)
    ):
        held = [index for index, place in enumerate(servers.bucket_server) if place == server]
        pushes = [servers.bucket_push_s[index] for index in held]
        ready = [costs.ready_s[index] for index in held]
        together = max(_shared(ready, [push * most for push in pushes])) + ranks * serve
        late = slowest * ready[-1] + pushes[-1] + serve
        ends.append(max(together, late) + 2 * servers.latency_s + pull * most)
    return max(ends)


def _mean_value(customers: int, alone_s: float, demands_s: Sequence[float]) -> float:
    """The cycle of a closed queueing network: these demands, and what is left of ``alone_s`` as a delay.

    Exact mean value analysis for exponential service, up to 256 customers; above, its fixed point for
    many (P. Schweitzer, 1979).
    """
    thinking = max(0.0, alone_s - sum(demands_s))
    queues = [0.0] * len(demands_s)
    if customers <= 256:
        cycle = alone_s
        for present in range(1, customers + 1):
            stays = [demand * (1.0 + queue) for demand, queue in zip(demands_s, queues, strict=True)]
            cycle = thinking + sum(stays)
            queues = [present * stay / cycle if cycle else 0.0 for stay in stays]
        return cycle
    cycle = max(alone_s, customers * max(demands_s))
    share = (customers - 1) / customers
    for _ in range(200):
        queues = [customers * demand / cycle for demand in demands_s] if not any(queues) else queues
        stays = [demand * (1.0 + share * queue) for demand, queue in zip(demands_s, queues, strict=True)]
        before, cycle = cycle, thinking + sum(stays)
        queues = [customers * stay / cycle for stay in stays]
        if abs(cycle - before) <= 1e-9 * cycle:
            break
    return cycle


def _pushes(servers: ServerCosts) -> list[list[float]]:
    """The push times of the buckets on each server."""
    pushes: list[list[float]] = [[] for _ in servers.push_s]
    for server, seconds in zip(servers.bucket_server, servers.bucket_push_s, strict=True):
        pushes[server].append(seconds)
    return pushes


def _alone(costs: StepCosts, servers: ServerCosts, *, local: frozenset[int]) -> float:
    """The step of a worker that has all to itself; servers in ``local`` cost no communication."""
    compute, latency = costs.ready_s[-1], servers.latency_s
    away = [index for index, server in enumerate(servers.bucket_server) if server not in local]
    through = _shared(
        [costs.ready_s[index] for index in away], [servers.bucket_push_s[index] for index in away]
    )
    arrived = {
        index: at + latency for index, at in zip(away, through, strict=True)
    }
    answers = []
    for server, serve in enumerate(servers.serve_s):
        held = [index for index, place in enumerate(servers.bucket_server) if place == server]
        answers.append(max(arrived.get(index, costs.ready_s[index]) for index in held) + serve)
    pulling = [server for server in range(len(answers)) if server not in local]
    pulled = _shared([answers[server] for server in pulling], [servers.pull_s[server] for server in pulling])
    ends = [at + latency for at in pulled] + [answers[server] for server in local]
    return max([compute, *ends])


def _shared(starts: Sequence[float], work: Sequence[float]) -> list[float]:
    """When messages that share one link equally are through."""
    ends = [0.0] * len(starts)
    left: dict[int, float] = {}
    coming = sorted(range(len(starts)), key=lambda index: (starts[index], index))
    now = 0.0
    while coming or left:
        if not left:
            now = starts[coming[0]]
        while coming and starts[coming[0]] <= now:
            left[coming[0]] = work[coming[0]]
            del coming[0]
        least = min(left.values())
        until = now + least * len(left)
        if coming and starts[coming[0]] < until:
            until = starts[coming[0]]
            done = (until - now) / len(left)
            left = {index: rest - done for index, rest in left.items()}
        else:
            for index in [index for index, rest in left.items() if rest == least]:
                ends[index] = until
                del left[index]
            left = {index: rest - least for index, rest in left.items()}
        now = until
    return ends
