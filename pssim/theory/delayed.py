"""The step time of delayed all-reduce, synchronous training included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, log, sqrt

from pssim.program import NoClosedForm, StepCosts
from pssim.theory.slowest import Line, largest

__all__ = ["delayed_all_reduce", "finish_times"]

# Lengths of the blocks that the approximation for delayed schemes chooses from.
_BLOCKS = (1, 2, 3, 4, 6, 8, 12, 20, 32, 64, 128, 256, 1024)


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


def delayed_all_reduce(costs: StepCosts, *, delay: int, overlap: bool) -> tuple[float, float, float]:
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
