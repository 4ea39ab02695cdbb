"""Closed forms: what schemes' step times come to, on plain floats.

Everything here is checked against the simulation, and shares no code with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import inf, log, sqrt

from pssim.program import NoClosedForm, ServerCosts, StepCosts

__all__ = ["Slowest", "delayed_all_reduce", "finish_times", "parameter_server", "slowest_factor"]

Triple = tuple[float, float, float]

# Lengths of the blocks that the approximation for delayed schemes chooses from.
_BLOCKS = (1, 2, 3, 4, 6, 8, 12, 20, 32, 64, 128, 256, 1024)


# --------------------------------------------------------------------------- the slowest of many ranks


Line = tuple[float, float]
"""A function of the slowest rank's jitter factor: slope and value at 0."""


@dataclass(frozen=True)
class Slowest:
    """The largest jitter factor of all ranks: values and their probabilities."""

    values: tuple[float, ...]
    probabilities: tuple[float, ...]

    @cached_property
    def mean(self) -> float:
        """The expected factor."""
        return self.mean_of_largest([(1.0, 0.0)])

    def mean_of(self, function: Callable[[float], float]) -> float:
        """The expected value of ``function`` of the factor."""
        if len(self.values) == 1:
            return function(self.values[0])
        return sum(p * function(value) for value, p in zip(self.values, self.probabilities, strict=True))

    def mean_of_largest(self, lines: Sequence[Line]) -> float:
        """The expected value of the largest of linear functions of the factor."""
        if len(self.values) == 1:
            return largest(lines, self.values[0])
        import numpy as np

        slopes, offsets = np.array(sorted(set(lines))).T
        values, probabilities = np.array(self.values), np.array(self.probabilities)
        return float(probabilities @ (np.multiply.outer(values, slopes) + offsets).max(axis=1))


def largest(lines: Sequence[Line], factor: float) -> float:
    """The largest of linear functions of the factor."""
    return max(slope * factor + offset for slope, offset in lines)


@lru_cache(maxsize=8192)
def slowest_factor(
    ranks_per_node: tuple[int, ...], sigma_rank: float, sigma_node: float, points: int = 2001
) -> Slowest:
    """The distribution of the largest of log-normal factors with mean 1.

    Each rank's factor has a part of its own (``sigma_rank``, of the logarithm) and one it shares with
    its node (``sigma_node``).  Given its node's part the ranks of a node are independent, and nodes
    are independent, so the distribution function of the maximum is a product over nodes of integrals
    of a power.  It is evaluated on a grid of ``points`` points, whose mean is exact to about
    30 / points^2 of sigma.
    """
    if sigma_rank == 0.0 and sigma_node == 0.0:
        return Slowest((1.0,), (1.0,))
    import numpy as np
    from scipy.special import ndtr

    sigma = sqrt(sigma_rank**2 + sigma_node**2)
    # In units of sigma, about the median: 9 of them leave out 1e-19 on either side.
    grid = np.linspace(-9.0 * sigma, 9.0 * sigma, points)
    shift = 0.5 * sigma**2
    counts = Counter(ranks_per_node)
    log_cdf = np.zeros_like(grid)
    z = np.linspace(-8.5, 8.5, 601)
    weight = np.exp(-0.5 * z**2)
    weight /= weight.sum()
    for count, nodes in counts.items():
        if sigma_node == 0.0:
            cdf = ndtr(grid / sigma_rank) ** count
        elif sigma_rank == 0.0:
            cdf = ndtr(grid / sigma_node)
        else:
            cdf = (ndtr((grid[:, None] - sigma_node * z) / sigma_rank) ** count) @ weight
        with np.errstate(divide="ignore"):
            log_cdf += nodes * np.log(cdf)
    mass = np.diff(np.exp(log_cdf))
    middle = np.exp(0.5 * (grid[1:] + grid[:-1]) - shift)
    kept = mass > 1e-18
    total = mass[kept].sum()
    return Slowest(tuple(middle[kept].tolist()), tuple((mass[kept] / total).tolist()))


# ------------------------------------------------------------------------------- delayed all-reduce


def finish_times(
    ready: Sequence[float], transfer: Sequence[float], latency: Sequence[float], width: int, holds: bool
) -> list[float]:
    """When each collective ends, on a channel that was idle: issued in order, at most ``width`` at once.

    The bytes of k under way advance at 1/k each; a place is kept until completion, or, without
    ``holds``, until the bytes are through.
    """
    ends = [0.0] * len(ready)
    if width == 1:
        free = 0.0
        for index, (at, bytes_s, latency_s) in enumerate(zip(ready, transfer, latency, strict=True)):
            through = max(at, free) + bytes_s
            ends[index] = through + latency_s
            free = ends[index] if holds else through
        return ends
    now, following = 0.0, 0
    left: dict[int, float] = {}
    kept: list[float] = []
    while left or following < len(ready):
        kept = [until for until in kept if until > now]
        while following < len(ready) and ready[following] <= now and len(left) + len(kept) < width:
            left[following] = transfer[following]
            following += 1
        changes = list(kept)
        least = min(left.values(), default=0.0)
        through = now + least * len(left)
        if left:
            changes.append(through)
        if following < len(ready) and ready[following] > now:
            changes.append(ready[following])
        change = min(changes)
        if left:
            # Whether one is through is decided by which change this is, never by what rounding leaves of it.
            finished = [index for index in left if left[index] == least] if change == through else []
            done = least if finished else (change - now) / len(left)
            left = {index: rest - done for index, rest in left.items() if index not in finished}
            for index in finished:
                ends[index] = change + latency[index]
                if holds and latency[index] > 0:
                    kept.append(ends[index])
        now = change
    return ends


def delayed_all_reduce(costs: StepCosts, *, delay: int, overlap: bool) -> Triple:
    """The steady step time of training whose gradients are applied ``delay`` steps late.

    Without jitter the steady step is the largest mean weight of a cycle of constraints
    (a max-plus eigenvalue; F. Baccelli et al., "Synchronization and Linearity", 1992, section 3.2):

    - compute and update follow each other:  compute + update, over 1 step;
    - collectives follow each other on their channel:  the sum of what they hold it, over 1 step;
    - a step's bucket b, then its buckets up to j on the channel, must be through before the update
      ``delay`` steps later:  ready_b + held_b + ... + held_j + tail_j + update, over delay + 1 steps;
    - so must the next step's bucket j < b, behind b on the channel, over delay + 2 steps: this binds
      only where the latency of j, which the channel is not held for, is longer than b's.

    Delay 0 with the third line is synchronous training.  With jitter that is exact in expectation for
    delay 0 (all ranks start together, so only the slowest factor counts).  For a larger delay, every
    path through the constraints gives a lower bound.  Two are taken as the bound: to stay on the
    slowest rank (its mean pace), and to change after every step to the rank that is slowest then,
    which takes a synchronous step and skips ``delay`` others.  Delay 0 is an upper bound.  The
    approximation is the largest of two estimates.  One is the best path between those two: m steps on
    the rank that is slowest over those m, then on to the next such.  The other sees ranks as random
    walks that cannot get further ahead of the slowest than the slack W = delay (compute + update) -
    communication after backward: seen from that limit, which drifts with v a step, their profile is
    exp(-2 v x / sigma^2), and the slowest of N is where N times that is 1, so v = sigma^2 ln N / (2 W).
    """
    if delay and costs.channel_width > 1 and costs.ranks > 1:
        raise NoClosedForm("a delay with several collectives at once on the channel has no closed form")
    compute = costs.ready_s[-1]
    if costs.channel_width > 1:
        step = costs.slowest_of(1.0).mean_of(_on_a_wide_channel(costs, overlap))
        return step, step, step
    synchronous = _synchronous(costs, overlap)
    if delay == 0:
        step = costs.slowest_of(1.0).mean_of_largest(synchronous)
        return step, step, step

    steps = delay + 1
    pace = [
        (compute, costs.update_s),
        (0.0, sum(_held(costs))),
        *((a / steps, b / steps) for a, b in synchronous),
        *((a / (steps + 1), b / (steps + 1)) for a, b in _behind_the_step_before(costs, overlap)),
    ]
    jittered = costs.slowest_of(1.0)
    low = max(costs.slowest_of(inf).mean_of_largest(pace), largest(synchronous, jittered.mean) / steps)
    if costs.variance_per_step == 0.0:  # every rank has one pace for good
        return low, low, low
    high = max(low, jittered.mean_of_largest(synchronous))

    def blocks(length: int) -> float:
        factor = costs.slowest_of(length).mean
        own = (length - 1) * (factor * compute + costs.update_s)
        return (own + largest(synchronous, factor)) / (length + delay)

    approximation = low
    if costs.ranks > 1 and compute > 0.0:
        slack = delay * (compute + costs.update_s) - (largest(synchronous, 1.0) - costs.update_s - compute)
        # Below this slack a single step, not a drift, takes a rank across it.
        least = sqrt(costs.variance_per_step * log(costs.ranks) / 2.0) * compute
        drift = costs.variance_per_step * log(costs.ranks) * compute / (2.0 * max(slack, least))
        approximation = max([low, largest(pace, 1.0 + drift), *map(blocks, _BLOCKS)])
    return min(approximation, high), low, high


def _held(costs: StepCosts) -> list[float]:
    """For how long each collective keeps its place on the channel."""
    if not costs.holds_completion:
        return list(costs.transfer_s)
    return [bytes_s + latency_s for bytes_s, latency_s in zip(costs.transfer_s, costs.latency_s, strict=True)]


def _synchronous(costs: StepCosts, overlap: bool) -> list[Line]:
    """The ways through a step of delay 0: to bucket b's gradient, then on the channel to the end of j."""
    compute, held = costs.ready_s[-1], _held(costs)
    ways = [(compute, costs.update_s)]
    for first, ready in enumerate(costs.ready_s):
        through = 0.0
        for last in range(first, len(held)):
            tail = 0.0 if costs.holds_completion else costs.latency_s[last]
            through += held[last]
            ways.append((ready if overlap else compute, through + tail + costs.update_s))
        if not overlap:
            break  # all gradients are ready at once, so the first is the longest way
    return ways


def _behind_the_step_before(costs: StepCosts, overlap: bool) -> list[Line]:
    """The ways from a step's bucket b to the update with the next step's bucket j < b."""
    if not overlap or costs.holds_completion or len(set(costs.latency_s)) <= 1:
        return []  # never longer than the other ways
    held, tail, ways = _held(costs), -inf, []
    for index in range(1, len(held)):
        # The largest of latency_j less what is held between j and b, over all j < b.
        tail = max(tail - held[index - 1], costs.latency_s[index - 1])
        ways.append((costs.ready_s[index], sum(held) + tail + costs.update_s))
    return ways


def _on_a_wide_channel(costs: StepCosts, overlap: bool) -> Callable[[float], float]:
    """The step of delay 0, as a function of the slowest rank's factor, with several collectives at once."""
    compute = costs.ready_s[-1]

    def step(factor: float) -> float:
        ready = [factor * (at if overlap else compute) for at in costs.ready_s]
        ends = finish_times(
            ready, costs.transfer_s, costs.latency_s, costs.channel_width, costs.holds_completion
        )
        return max([factor * compute, *ends]) + costs.update_s

    return step


# --------------------------------------------------------------------------------- parameter servers


def parameter_server(costs: StepCosts, *, bound: int | None) -> Triple:
    """The step time of workers that push to servers and wait for their answer, mean over workers.

    Exact (all three equal) for one worker alone, and where a serial server never idles: if even the
    longest way round the rest of a cycle takes less than serving the other workers, every cycle is
    ranks x service.  Elsewhere, the asymptotic bounds of closed queueing networks (E. Lazowska et al.,
    "Quantitative System Performance", 1984, section 5.2): no cycle is shorter than a worker alone, nor
    are ranks cycles shorter than ranks x the busiest resource; and none is longer than if every other
    worker were ahead at every resource.  The approximation between them is mean value analysis of the
    busiest server's link in, update and link out, for exponential service; a run without any
    variation may lock into a phase and be far from it, for ever.
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
    cycle = max(
        _mean_value(ranks, remote_alone, (push * most / ranks, serve, pull * most / ranks))
        for most, push, serve, pull in zip(
            remote, servers.push_s, servers.serve_s, servers.pull_s, strict=True
        )
    )
    return min(max(low, cycle), high), low, high


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
