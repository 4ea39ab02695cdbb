"""Simulated steps against closed forms, for schemes that all-reduce and without jitter.

Simulated against analytic means: equal to 1e-9 or to 1 ps an action, whichever is larger.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pssim.cluster import Jitter
from pssim.engine import analytic, events, vector
from pssim.engine.job import Job
from pssim.program import Compute, Forward, NoClosedForm, Program, Rank
from pssim.schemes import DelayedAllReduce
from pssim.theory import finish_times

PS = 1e-12
RANKS = 4


def all_reduce(transfer_s: float, latency_s: float = 0.0) -> dict[str, Any]:
    """Settings that make a ring all-reduce over 4 ranks take just this long: 6 messages of a quarter."""
    return {
        "sizes": (round(transfer_s / 1.5 * 1e9),),
        "bandwidth": 1e9,
        "latency_s": latency_s / 6,
        "ranks": RANKS,
    }


def tolerance_s(job: Job, step_s: float) -> float:
    actions = 3 * len(job.workload.buckets) + 3
    return max(1e-9 * step_s, actions * PS)


def tail_s(marks_ps: np.ndarray, steps: int) -> float:
    """The slope over the last so many steps."""
    return float((marks_ps[-1] - marks_ps[-1 - steps]).mean()) * PS / steps


# ------------------------------------------------------------------------------------ steady periods


@given(data=st.data())
@settings(max_examples=max(150, settings().max_examples))
def test_steady_steps_equal_the_closed_form(data: Any, make_job: Callable[..., Job], record_of: Any) -> None:
    """Delay 0 to 4, overlap or not, any buckets and ranks: by the last 120 steps, and by what is measured."""
    draw = data.draw
    buckets = draw(st.integers(1, 6))
    delay = draw(st.integers(0, 4))
    backward = draw(st.lists(st.floats(1e-3, 1.0), min_size=buckets, max_size=buckets))
    sizes = draw(st.lists(st.sampled_from([0, 10**3, 10**6, 5 * 10**7]), min_size=buckets, max_size=buckets))
    forward = draw(st.sampled_from([0.0, 0.1, 0.9]))
    ratio = draw(st.sampled_from([0.05, 0.3, 0.7, 0.9, 1.1, 1.5, 3.0, 5.0]))
    ranks = draw(st.integers(1, 40))
    job = make_job(
        "pseudo-sync",
        options={"delay": delay, "overlap": draw(st.booleans())},
        ranks=ranks,
        ranks_per_node=draw(st.integers(1, 5)),
        forward_s=forward,
        backward_s=backward,
        sizes=sizes,
        update_s=draw(st.sampled_from([0.0, 0.05])),
        latency_s=draw(st.sampled_from([0.0, 1.5e-6, 1e-3, 0.02])),
        bandwidth=2 * sum(sizes) / (ratio * (forward + sum(backward))) or 1e9,
        algorithm=draw(st.sampled_from(["auto", "ring", "tree"])),
        width=1 if delay else draw(st.integers(1, 4)),
        holds=draw(st.booleans()),
        slowdown=draw(st.sampled_from([None, (1.5,) + (1.0,) * (ranks - 1)])),
        steps=400,
    )
    expected = analytic.estimate(job)
    assert expected.low_s == expected.step_s == expected.high_s or delay
    raw = vector.simulate(job)
    found, before = tail_s(raw.marks_ps, 120), tail_s(raw.marks_ps[:-120], 120)
    assume(abs(found - before) <= tolerance_s(job, found))  # the delay queue has filled
    assert found == pytest.approx(expected.step_s, abs=tolerance_s(job, found))
    record = record_of(job, raw=raw)
    assert record.steady
    measured = float((record.window_ps / record.steps_measured).mean()) * PS
    assert measured == pytest.approx(expected.step_s, abs=tolerance_s(job, measured))


@pytest.mark.parametrize("communication_s", [0.3, 0.75, 1.2, 3.0])
@pytest.mark.parametrize(
    ("scheme", "options", "formula"),
    [
        ("sync", {}, lambda compute, comm: compute + comm),
        ("sync-overlap", {}, lambda compute, comm: compute + comm),  # one bucket: nothing to overlap
        ("pseudo-sync", {"delay": 1}, max),
        ("pseudo-sync", {"delay": 2}, max),
        ("pseudo-sync", {"delay": 3}, max),
        ("pseudo-sync", {"delay": 4}, max),
        ("pseudo-sync", {"delay": 0}, lambda compute, comm: compute + comm),
    ],
)
def test_one_bucket_step(
    scheme: str,
    options: Any,
    formula: Any,
    communication_s: float,
    make_job: Any,
    record_of: Any,
    step_s: Any,
) -> None:
    """Compute of 1 s and one all-reduce of c: sync takes 1 + c, any delay max(1, c), on both engines."""
    job = make_job(scheme, options=options, steps=60, **all_reduce(communication_s))
    for engine in ("events", "vector"):
        record = record_of(job, engine)
        assert record.steady
        assert step_s(record) == pytest.approx(formula(1.0, communication_s), abs=10 * PS)


def test_sync_overlap_hides_all_but_the_tail(make_job: Any, record_of: Any, step_s: Any) -> None:
    """Buckets ready at .6, .8 and 1.0 s with all-reduces of .3 s each: the last ends at 1.5 s."""
    job = make_job(
        "sync-overlap", backward_s=(0.2,) * 3, sizes=(2 * 10**8,) * 3, update_s=0.25, ranks=RANKS, steps=10
    )
    assert step_s(record_of(job)) == pytest.approx(1.5 + 0.25, abs=10 * PS)
    without = make_job(
        "sync", backward_s=(0.2,) * 3, sizes=(2 * 10**8,) * 3, update_s=0.25, ranks=RANKS, steps=10
    )
    assert step_s(record_of(without)) == pytest.approx(1.0 + 0.9 + 0.25, abs=10 * PS)


@pytest.mark.parametrize("delay", [1, 2, 3, 4])
@pytest.mark.parametrize("occupancy_s", [0.3, 1.5])
@pytest.mark.parametrize("latency_s", [0.0, 0.9, 4.2])
def test_occupancy_and_latency_apart(
    delay: int, occupancy_s: float, latency_s: float, make_job: Any, record_of: Any, step_s: Any
) -> None:
    """A channel free once bytes are through: the step is max(comp, occupancy, (comp + completion)/(d+1))."""
    job = make_job(
        "pseudo-sync", options={"delay": delay}, holds=False, steps=120, **all_reduce(occupancy_s, latency_s)
    )
    record = record_of(job)
    completion_s = occupancy_s + latency_s
    assert step_s(record) == pytest.approx(
        max(1.0, occupancy_s, (1.0 + completion_s) / (delay + 1)), abs=10 * PS
    )
    held = make_job("pseudo-sync", options={"delay": delay}, steps=120, **all_reduce(occupancy_s, latency_s))
    assert step_s(record_of(held)) == pytest.approx(max(1.0, completion_s), abs=10 * PS)


def test_a_long_latency_behind_the_step_before(make_job: Any) -> None:
    """A ring of long latency queued behind the last bucket of the step before, which is a tree of short one.

    Neither compute (1 s), the channel (1 s) nor one step's own buckets alone explain the period: the way
    from a step's second bucket to the update with the next step's first takes delay + 2 = 3 steps.
    """
    job = make_job(
        "pseudo-sync", forward_s=0.0, backward_s=(0.0, 1.0), sizes=(24 * 10**7, 5 * 10**7), ranks=8,
        latency_s=0.12, algorithm="auto", holds=False, steps=600,
    )  # fmt: skip
    ring, tree = [job.all_reduce(bucket.size_bytes) for bucket in job.workload.buckets]
    assert (ring.algorithm, tree.algorithm) == ("ring", "tree")
    held_s = ring.transfer_s + tree.transfer_s
    assert max(held_s, (ring.total_s) / 2, (1.0 + tree.total_s) / 2) < 1.1
    period_s = (held_s + 1.0 + ring.latency_s) / 3
    assert analytic.estimate(job).step_s == pytest.approx(period_s)
    assert tail_s(vector.simulate(job).marks_ps, 300) == pytest.approx(period_s, rel=1e-9)


@pytest.mark.parametrize("buckets", [1, 3])
def test_a_delay_on_a_wide_channel_has_no_closed_form(buckets: int, make_job: Any) -> None:
    """All-reduces of successive steps then share the wire, and the engine says so rather than guess."""
    job = make_job("pseudo-sync", width=2, backward_s=(0.2,) * buckets, sizes=(10**8,) * buckets)
    with pytest.raises(NoClosedForm, match="several collectives at once"):
        analytic.estimate(job)
    assert analytic.estimate(make_job("pseudo-sync", width=2, ranks=1)).step_s == 1.0


@given(data=st.data())
def test_finishing_times_end_for_any_rounding(data: Any) -> None:
    """Collectives on a channel of any width all end: none sooner than alone, nor later than all in a row."""
    count = data.draw(st.integers(1, 6))
    seconds = st.one_of(st.floats(0.0, 1.0), st.sampled_from([0.1, 0.2, 0.30000000000000004, 1e-17]))
    ready = sorted(data.draw(st.lists(seconds, min_size=count, max_size=count)))
    transfer = data.draw(st.lists(seconds, min_size=count, max_size=count))
    latency = data.draw(st.lists(seconds, min_size=count, max_size=count))
    width, holds = data.draw(st.integers(1, 4)), data.draw(st.booleans())
    ends = finish_times(ready, transfer, latency, width, holds)
    for index in range(count):
        assert ends[index] >= ready[index] + transfer[index] + latency[index] - 1e-12
        assert ends[index] <= max(ready) + sum(transfer) + sum(latency) + 1e-12


# --------------------------------------------------------------------------------- filling the queue


def test_the_delay_queue_fills_before_steps_are_steady(make_job: Any, record_of: Any, step_s: Any) -> None:
    """Communication 1.05 times compute at delay 2: steps of 1.000 until about the 22nd, then 1.050."""
    job = make_job("pseudo-sync", options={"delay": 2}, steps=200, **all_reduce(1.05))
    raw = vector.simulate(job)
    steps_s = np.diff(raw.marks_ps[:, 0]) * PS
    np.testing.assert_allclose(steps_s[:20], 1.0, rtol=1e-9)
    np.testing.assert_allclose(steps_s[24:], 1.05, rtol=1e-9)
    record = record_of(job, raw=raw)
    assert record.steady
    assert record.first.min() >= 20
    assert step_s(record) == pytest.approx(1.05, rel=1e-9)


def test_a_run_that_ends_before_the_queue_is_full_says_so(make_job: Any, record_of: Any, step_s: Any) -> None:
    """At delay 4 the queue fills until step 64 or so; 40 steps all take 1.000, and are not called steady."""
    job = make_job("pseudo-sync", options={"delay": 4}, steps=40, **all_reduce(1.05))
    record = record_of(job, "vector")
    assert not record.steady
    assert step_s(record) == pytest.approx(1.0, rel=1e-9)
    assert record.step_p99_ps * PS == pytest.approx(1.0, rel=1e-9)
    late = make_job("pseudo-sync", options={"delay": 4}, steps=80, **all_reduce(1.05))
    assert not record_of(late, "vector").steady  # what is left after the filling is less than a quarter
    longer = make_job("pseudo-sync", options={"delay": 4}, steps=400, **all_reduce(1.05))
    assert record_of(longer, "vector").steady


def test_a_run_shorter_than_its_pattern_is_not_steady(make_job: Any, record_of: Any) -> None:
    """Two steps at delay 4 apply nothing: what is measured is not what training does."""
    record = record_of(make_job("pseudo-sync", options={"delay": 4}, update_s=0.1, steps=2))
    assert not record.steady


# ------------------------------------------------------------------------------- how a delay spreads


class Disturbed:
    """Factors that are 1, but for some (rank, step)."""

    jitter = Jitter()
    slowdown = None
    varies_in_time = True

    def __init__(self, ranks: int, factors: dict[tuple[int, int], float]) -> None:
        self.ranks, self.disturbed = ranks, factors

    def factors(self, step: int) -> np.ndarray:
        values = np.ones(self.ranks)
        for (rank, at), factor in self.disturbed.items():
            if at == step:
                values[rank] = factor
        return values


@pytest.mark.parametrize("engine", [events, vector], ids=["events", "vector"])
@pytest.mark.parametrize("communication_s", [0.15, 0.6, 0.9])
@pytest.mark.parametrize("x", [0.05, 0.3, 0.5, 0.9, 2.5])
def test_a_one_off_delay_reaches_the_others_less_the_slack(
    engine: Any, communication_s: float, x: float, make_job: Any
) -> None:
    """Delay 1, one bucket: the late rank shifts by x for good, the others by max(0, x - (comp - comm))."""
    calm = make_job("pseudo-sync", steps=20, **all_reduce(communication_s))
    late = make_job(
        "pseudo-sync", steps=20, source=Disturbed(RANKS, {(1, 7): 1 + x}), **all_reduce(communication_s)
    )
    shift = (engine.simulate(late).marks_ps[-1] - engine.simulate(calm).marks_ps[-1]) * PS
    others = max(0.0, x - (1.0 - communication_s))
    np.testing.assert_allclose(shift, [others, x, others, others], atol=20 * PS)


class OneLate(DelayedAllReduce):
    """Delayed all-reduce with one rank held up once, before its forward pass."""

    rank: int = 1
    step: int = 7
    late_s: float = 0.0

    def worker(self, rank: Rank) -> Program:
        program, result, step = super().worker(rank), None, -1
        while True:
            try:
                action = program.send(result)
            except StopIteration:
                return
            step += isinstance(action, Forward)
            if isinstance(action, Forward) and (rank.index, step) == (self.rank, self.step):
                yield Compute("late", self.late_s)
            result = yield action


@pytest.mark.parametrize("bucket_s", [0.09, 0.15, 0.18, 0.21])
@pytest.mark.parametrize("x", [0.1, 0.6, 0.8, 2.0])
def test_with_several_buckets_the_slack_ends_with_the_communication_tail(
    bucket_s: float, x: float, make_job: Any
) -> None:
    """Others shift by max(0, x - (comp - tail)), the tail being what is left to reduce when backward ends."""
    settings_ = {"backward_s": (0.15,) * 4, "steps": 20, "update_s": 0.0}
    reduced = all_reduce(bucket_s) | {"sizes": (round(bucket_s / 1.5 * 1e9),) * 4}
    calm = events.simulate(make_job(OneLate(), **settings_, **reduced)).marks_ps[-1]
    late = events.simulate(make_job(OneLate(late_s=x), **settings_, **reduced)).marks_ps[-1]
    tail_s = 0.0
    for ready in (0.55, 0.70, 0.85, 1.0):
        tail_s = max(tail_s, ready) + bucket_s
    others = max(0.0, x - (1.0 - (tail_s - 1.0)))
    np.testing.assert_allclose((late - calm) * PS, [others, x, others, others], atol=20 * PS)


@pytest.mark.parametrize(("count", "sync_s", "pseudo_sync_s"), [(2, 1.0, 0.5), (4, 2.0, 0.5)])
def test_delays_on_different_ranks_add_up_in_sync_only(
    count: int, sync_s: float, pseudo_sync_s: float, make_job: Any
) -> None:
    """Delays of .5 s in different steps, slack over .5 s: the run ends later by their sum, or by one."""
    late = {(rank, 3 + 2 * rank): 1.5 for rank in range(count)}
    for scheme, expected in (("sync", sync_s), ("pseudo-sync", pseudo_sync_s)):
        for engine in (events, vector):
            calm = make_job(scheme, steps=20, **all_reduce(0.45))
            disturbed = make_job(scheme, steps=20, source=Disturbed(RANKS, late), **all_reduce(0.45))
            end, before = (engine.simulate(job).marks_ps[-1].max() for job in (disturbed, calm))
            assert (end - before) * PS == pytest.approx(expected, abs=20 * PS), scheme


def test_delays_on_the_same_rank_add_up_in_both(make_job: Any) -> None:
    """Two delays of .5 s on one rank end the run 1 s later, whatever the scheme."""
    for scheme in ("sync", "pseudo-sync"):
        calm = make_job(scheme, steps=20, **all_reduce(0.45))
        source = Disturbed(RANKS, {(2, 3): 1.5, (2, 9): 1.5})
        disturbed = make_job(scheme, steps=20, source=source, **all_reduce(0.45))
        end, before = (events.simulate(job).marks_ps[-1].max() for job in (disturbed, calm))
        assert (end - before) * PS == pytest.approx(1.0, abs=20 * PS)
