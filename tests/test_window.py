"""The measured window: what is cut off, what the totals in it mean, and when a run is called steady."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pssim.cluster import Jitter
from pssim.engine import events, vector
from pssim.engine.measure import carried_ps, covered_ps, measure, snapshot_steps
from pssim.program import AllReduce, Backward, Compute, Forward, Program, Rank, Scheme, Update, Wait

PS = 1e-12


@given(st.integers(2, 500), st.integers(1, 5), st.integers(0, 40))
def test_windows_are_whole_patterns(steps: int, pattern: int, warm_up: int) -> None:
    """Every possible window is whole patterns, and begins when gradients are as late as they get.

    Where the run is too short for that there is still a window, of what there is.
    """
    *starts, last = snapshot_steps(steps, pattern, warm_up)
    assert last == steps
    assert starts
    assert starts == sorted(set(starts))
    assert starts[0] >= 0
    assert starts[-1] < steps
    assert len(starts) <= 26
    settled = warm_up + max(1, 2 * (pattern - 1))
    if settled + pattern <= steps:
        assert all((steps - start) % pattern == 0 for start in starts)
        assert settled <= starts[0] < settled + pattern


def test_warm_up_steps_are_not_measured(make_job: Any, record_of: Any, step_s: Any) -> None:
    """Twenty synchronous steps of 1.3 s at the start leave the delayed step of 1 s alone."""
    options = {"delay": 1, "warmup_steps": 20}
    job = make_job("pseudo-sync", options=options, sizes=(2 * 10**8,), steps=80)
    raw = vector.simulate(job)
    np.testing.assert_allclose(np.diff(raw.marks_ps[:, 0])[:20] * PS, 1.3, rtol=1e-9)
    record = record_of(job, raw=raw)
    assert record.first.min() >= 21
    assert record.steady
    assert step_s(record) == pytest.approx(1.0, rel=1e-9)
    assert record.staleness_mean == 1.0


def test_steps_that_alternate_are_measured_in_pairs(make_job: Any, record_of: Any, step_s: Any) -> None:
    """At delay 1 and a latency of more than a step, steps alternate for ever: the mean is exact still."""
    job = make_job("pseudo-sync", latency_s=1.8 / 6, sizes=(2 * 10**8,), holds=False, steps=61)
    raw = vector.simulate(job)
    late = np.diff(raw.marks_ps[-10:, 0])
    assert late[0] != late[1]
    record = record_of(job, raw=raw)
    assert record.steady
    assert int(record.steps_measured[0]) % 2 == 0
    assert step_s(record) == pytest.approx((1.0 + 0.3 + 1.8) / 2, rel=1e-9)


@pytest.mark.parametrize(("delay", "ratio"), [(1, 1.05), (2, 1.05), (4, 1.1)])
@pytest.mark.parametrize("ranks", [4, 64])
def test_with_jitter_what_is_left_of_the_filling_is_small(
    delay: int, ratio: float, ranks: int, make_job: Any, record_of: Any, step_s: Any
) -> None:
    """The step of a run of 300 is within 0.3 % of that of the last 1,000 of 1,500 (same random numbers)."""
    size = round(ratio * 1e9 * ranks / (2 * (ranks - 1)))
    settings_ = {
        "options": {"delay": delay}, "ranks": ranks, "sizes": (size,), "jitter": Jitter(independent=0.02)
    }  # fmt: skip
    long = vector.simulate(make_job("pseudo-sync", steps=1500, **settings_)).marks_ps
    truth = float((long[-1] - long[500]).mean()) * PS / 1000
    record = record_of(make_job("pseudo-sync", steps=300, **settings_), "vector")
    assert record.steady
    assert step_s(record) == pytest.approx(truth, rel=0.003)


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)), max_size=8),
    st.lists(st.tuples(st.integers(0, 80), st.integers(0, 40)), min_size=1, max_size=5),
)
def test_covered_time_is_that_of_the_union(spans: Any, windows: Any) -> None:
    """Counted picosecond by picosecond."""
    intervals = [(start, start + length) for start, length in spans]
    begin = np.array([start for start, _ in windows])
    end = np.array([start + length for start, length in windows])
    covered = {at for start, stop in intervals for at in range(start, stop)}
    expected = [sum(at in covered for at in range(a, b)) for a, b in zip(begin, end, strict=True)]
    assert covered_ps(intervals, begin, end).tolist() == expected


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 60), st.integers(0, 30), st.integers(1, 4)), max_size=12
    ),
    st.lists(st.tuples(st.integers(0, 80), st.integers(0, 40)), min_size=3, max_size=3),
)
def test_carried_time_counts_shares_of_a_link_up_to_one(found: Any, windows: Any) -> None:
    """Counted picosecond by picosecond: a message that takes n times as long as alone counts for 1/n."""
    messages = [(rank, start, start + alone * slower, alone) for rank, start, alone, slower in found]
    begin = np.array([start for start, _ in windows])
    end = np.array([start + length for start, length in windows])
    expected = np.zeros(3)
    for rank in range(3):
        mine = [message for message in messages if message[0] == rank and message[3]]
        for at in range(begin[rank], end[rank]):
            shares = [alone / (stop - start) for _, start, stop, alone in mine if start <= at < stop]
            expected[rank] += min(1.0, sum(shares))
    carried = carried_ps(np.array(messages, dtype=np.int64).reshape(-1, 4), begin, end)
    np.testing.assert_allclose(carried, expected, atol=0.5 + 1e-9)


# ------------------------------------------------------------------------------------ what totals mean


def test_exposed_and_hidden_communication(make_job: Any, record_of: Any) -> None:
    """Of .3 s of all-reduce sync shows all and pseudo-sync none; in transfer they are all the same."""
    settings_ = {"sizes": (2 * 10**8,), "update_s": 0.1, "steps": 20}
    for engine in ("events", "vector"):
        sync = record_of(make_job("sync", **settings_), engine)
        hidden = record_of(make_job("pseudo-sync", **settings_), engine)
        for record, exposed_s in ((sync, 0.3), (hidden, 0.0)):
            steps = record.steps_measured
            assert (record.transfer_ps == steps * round(exposed_s / PS)).all()
            assert (record.in_transfer_ps == steps * round(0.3 / PS)).all()
            assert (record.compute_ps == steps * 10**12).all()
            assert (record.update_ps == steps * 10**11).all()
            assert (record.alone_ps == steps * round(1.1 / PS)).all()
            assert (record.wait_ps == 0).all()


def test_waiting_for_a_late_rank_is_not_transfer(make_job: Any, record_of: Any) -> None:
    """The fast ranks wait .5 s for the slow one, then all are in transfer for .3 s."""
    job = make_job("sync", sizes=(2 * 10**8,), slowdown=(1.5, 1.0, 1.0, 1.0), steps=10)
    record = record_of(job)
    waited_s = record.wait_ps / record.steps_measured * PS
    np.testing.assert_allclose(waited_s, [0.0, 0.5, 0.5, 0.5], atol=1e-9)
    np.testing.assert_allclose(record.transfer_ps / record.steps_measured * PS, 0.3, rtol=1e-9)
    np.testing.assert_allclose(record.alone_ps / record.steps_measured * PS, [1.5, 1.0, 1.0, 1.0], rtol=1e-9)


def test_waiting_for_the_channel_is_queueing(make_job: Any, record_of: Any) -> None:
    """Without overlap two buckets begin together; waited for last first, the second queues behind the first.

    Charged handle by handle, only for the time after the one before: .3 s of queue, .3 s of transfer, and
    nothing for the first, which is done by then.
    """
    job = make_job(LastFirst(), backward_s=(0.3, 0.3), sizes=(2 * 10**8,) * 2, steps=10)
    for engine in ("events", "vector"):
        record = record_of(job, engine)
        steps = record.steps_measured
        assert (record.queue_ps == steps * round(0.3 / PS)).all()
        assert (record.transfer_ps == steps * round(0.3 / PS)).all()
    in_order = record_of(make_job("sync", backward_s=(0.3, 0.3), sizes=(2 * 10**8,) * 2, steps=10))
    assert (in_order.queue_ps == 0).all()
    assert (in_order.transfer_ps == in_order.steps_measured * round(0.6 / PS)).all()


class LastFirst(Scheme):
    """Synchronous training that waits for its last bucket first, and computes something of its own."""

    extra_s: float = 0.0
    flush: bool = False

    def worker(self, rank: Rank) -> Program:
        for _ in rank.steps():
            yield Forward()
            gradients = []
            for bucket in rank.buckets:
                gradients.append((yield Backward(bucket)))  # noqa: PERF401  (a yield)
            yield Compute("extra", self.extra_s)
            handles = []
            for gradient in gradients:
                handles.append((yield AllReduce(gradient)))  # noqa: PERF401  (a yield)
            yield Update((yield Wait(*reversed(handles))))
        if self.flush:
            for gradient in gradients:
                handles.append((yield AllReduce(gradient)))  # noqa: PERF401  (a yield)
            yield Update((yield Wait(*handles)))


def test_extra_computation_counts_against_a_scheme(make_job: Any, record_of: Any) -> None:
    """It is computation, but not what a rank would do alone, without the scheme."""
    record = record_of(make_job(LastFirst(extra_s=0.2), steps=10))
    assert (record.compute_ps == record.steps_measured * round(1.2 / PS)).all()
    assert (record.alone_ps == record.steps_measured * 10**12).all()


@pytest.mark.parametrize("engine", ["events", "vector"])
def test_what_follows_the_last_step_is_not_measured(engine: str, make_job: Any, record_of: Any) -> None:
    """A final flush adds neither bytes nor updates nor time to the window."""
    plain = record_of(make_job(LastFirst(), ranks=3, steps=10), engine)
    flushed = record_of(make_job(LastFirst(flush=True), ranks=3, steps=10), engine)
    np.testing.assert_array_equal(flushed.bytes_sent, plain.bytes_sent)
    np.testing.assert_array_equal(flushed.in_transfer_ps, plain.in_transfer_ps)
    assert flushed.staleness_mean == plain.staleness_mean == 0.0
    assert flushed.staleness_max == 0


class Evaluates(Scheme):
    """Computes and averages something after its last step."""

    def worker(self, rank: Rank) -> Program:
        for _ in rank.steps():
            yield Forward()
            gradient = yield Backward(rank.buckets[0])
            yield Update((yield Wait((yield AllReduce(gradient)))))
        yield Compute("evaluate", 1.0)
        yield Wait((yield AllReduce(gradient)))


def test_a_slow_rank_may_take_its_time_after_the_last_step(
    make_job: Any, record_of: Any, assert_same_record: Any
) -> None:
    """The fast ranks wait for it in a last all-reduce: no stall, and nothing of it is measured."""
    job = make_job(Evaluates(), slowdown=(1.0, 1.0, 1.0, 4.0), steps=6)
    assert_same_record(record_of(job, "events"), record_of(job, "vector"))
    assert record_of(job).last.tolist() == [6] * 4


@pytest.mark.parametrize("delay", [0, 1, 3])
@pytest.mark.parametrize("engine", ["events", "vector"])
def test_staleness_of_a_delay_is_the_delay(delay: int, engine: str, make_job: Any, record_of: Any) -> None:
    """Each gradient is applied ``delay`` updates after the weights it was computed on, exactly."""
    job = make_job("pseudo-sync", options={"delay": delay}, backward_s=(0.3, 0.3), sizes=(10**6, 0), steps=30)
    record = record_of(job, engine)
    assert (record.staleness_mean, record.staleness_max) == (float(delay), delay)


@pytest.mark.parametrize("engine", ["events", "vector"])
def test_bytes_are_those_of_the_ring(engine: str, make_job: Any, record_of: Any) -> None:
    """Per step 2(N-1)/N of all buckets, on every rank."""
    record = record_of(make_job("pseudo-sync", ranks=5, backward_s=(0.3, 0.3), sizes=(10**6, 10**5)), engine)
    np.testing.assert_allclose(record.bytes_sent / record.steps_measured, 2 * 4 / 5 * 1.1e6, rtol=1e-12)


def test_percentiles_are_those_of_all_measured_steps(make_job: Any) -> None:
    """Half, and 99 of 100, of the measured steps of all ranks take no longer."""
    job = make_job("pseudo-sync", ranks=6, jitter=Jitter(0.05, 0.0, 0.2), steps=60)
    raw = events.simulate(job)
    record = measure(raw, pattern=2, warm_up=0, update_ps=0)
    steps_ps = np.sort(np.diff(raw.marks_ps[record.first[0] :], axis=0).ravel())
    for share, found in ((0.5, record.step_p50_ps), (0.99, record.step_p99_ps)):
        assert (steps_ps <= found).mean() >= share
        assert (steps_ps < found).mean() < share
        assert found in steps_ps


# ---------------------------------------------------------------------------------------- free running


def test_workers_of_async_all_run_while_any_is_measured(make_job: Any, record_of: Any) -> None:
    """The others have taken their steps long before the slow one: it queues behind them to the end."""
    job = make_job(
        "async", options={"placement": "dedicated"}, ranks=4, slowdown=(8.0, 1.0, 1.0, 1.0), sizes=(10**6,),
        update_s=0.6, steps=30,
    )  # fmt: skip
    raw = events.simulate(job)
    slow = np.diff(raw.marks_ps[:, 0]) * PS
    alone_s = 8.0 + 0.6 + 2e-3
    assert raw.marks_ps[-1, 1:].max() < 0.4 * raw.marks_ps[-1, 0]
    assert slow[20:].mean() > alone_s + 0.3
    assert slow[20:].mean() == pytest.approx(slow[5:20].mean(), rel=0.05)
    record = record_of(job, raw=raw)
    assert (record.last == 30).all()
    assert record.staleness_max > 3


def test_a_run_of_two_steps_is_measured_and_called_unsteady(make_job: Any, record_of: Any) -> None:
    """There is nothing to compare one step with."""
    record = record_of(make_job("async", ranks=3, steps=2))
    assert not record.steady
    assert (record.window_ps > 0).all()
