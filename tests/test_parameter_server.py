"""Parameter servers: staleness, the bound of SSP, where time goes, and bounds from queueing theory."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pssim.clocks import WorkerClocks
from pssim.cluster import Jitter
from pssim.engine import analytic, events
from pssim.engine.job import Job, shard
from pssim.engine.record import RawLog
from pssim.program import (
    ANY,
    Backward,
    Compute,
    Forward,
    Program,
    Rank,
    Receive,
    Scheme,
    Send,
    Update,
)
from pssim.schemes import ParameterServer
from pssim.workload.step import Bucket

PS = 1e-12
BOUNDS = [None, 0, 1, 3]


# ------------------------------------------------------------------------------------------ staleness


@pytest.mark.parametrize("ranks", [2, 5, 16])
@pytest.mark.parametrize("jitter", [Jitter(), Jitter(independent=0.2)], ids=["none", "jitter"])
def test_mean_staleness_tends_to_the_other_workers(
    ranks: int, jitter: Jitter, make_job: Any, record_of: Any
) -> None:
    """Between a worker's pull and its next update every other worker updates once: ranks - 1, within 1 %."""
    job = make_job(
        "async", options={"placement": "dedicated"}, ranks=ranks, jitter=jitter, sizes=(10**7,),
        update_s=0.001, steps=150,
    )  # fmt: skip
    assert record_of(job).staleness_mean == pytest.approx(ranks - 1, rel=0.01)


def test_staleness_of_a_saturated_server_is_exact(make_job: Any, record_of: Any) -> None:
    """Where the server never idles workers take turns, so each update is exactly ranks - 1 late."""
    job = make_job("async", options={"placement": "dedicated"}, ranks=7, update_s=0.5, steps=30)
    record = record_of(job)
    assert (record.staleness_mean, record.staleness_max) == (6.0, 6)


def test_staleness_is_counted_per_bucket_and_weighed_by_bytes(make_job: Any, record_of: Any) -> None:
    """Sharding changes neither the mean nor the maximum: every shard sees each worker once a step."""
    for servers in (1, 2, 4):
        job = make_job(
            "async", options={"placement": "dedicated", "servers": servers}, ranks=5, update_s=1.0,
            backward_s=(0.1,) * 4, sizes=(10**6, 2 * 10**6, 3 * 10**6, 10**6), steps=30,
        )  # fmt: skip
        assert record_of(job).staleness_mean == pytest.approx(4.0, rel=0.02)


@given(data=st.data())
@settings(max_examples=60)
def test_the_clock_gap_never_exceeds_the_bound(data: Any, make_job: Any, record_of: Any) -> None:
    """Whatever the jitter, the speeds and the servers; and without a bound it does grow beyond."""
    draw = data.draw
    ranks = draw(st.integers(1, 8))
    bound = draw(st.integers(0, 4))
    slowdown = draw(st.lists(st.sampled_from([1.0, 1.5, 3.0]), min_size=ranks, max_size=ranks))
    job = make_job(
        "ssp",
        options={
            "bound": bound,
            "servers": draw(st.integers(1, 3)),
            "placement": draw(st.sampled_from(["colocated", "dedicated"])),
        },
        ranks=ranks,
        ranks_per_node=draw(st.integers(1, 3)),
        backward_s=(0.3, 0.3),
        sizes=(draw(st.integers(0, 10**8)), 10**7),
        jitter=Jitter(0.1, 0.1, draw(st.sampled_from([0.0, 0.5]))),
        slowdown=slowdown,
        update_s=draw(st.sampled_from([0.0, 0.1])),
        steps=20,
    )
    record = record_of(job)
    assert record.clock_gap_max is not None
    assert record.clock_gap_max <= bound


def test_without_a_bound_fast_workers_run_ahead(make_job: Any, record_of: Any) -> None:
    """One worker three times as slow: the others of async get further ahead than SSP would let them."""
    unequal = {"ranks": 4, "slowdown": [3.0, 1.0, 1.0, 1.0], "sizes": (1000,), "steps": 30}
    assert record_of(make_job("async", **unequal)).clock_gap_max >= 12
    assert record_of(make_job("ssp", **unequal)).clock_gap_max == 3
    held = record_of(make_job("ssp", options={"bound": 1}, **unequal))
    assert held.window_ps.sum() / held.steps_measured.sum() * PS == pytest.approx(3.0, rel=0.05)
    assert held.wait_ps[1:].min() > 0.6 * held.window_ps[1:].max()


def test_schemes_without_a_server_have_no_clock_gap(make_job: Any, record_of: Any) -> None:
    """The column stays empty for them."""
    assert record_of(make_job("sync", steps=4)).clock_gap_max is None


# ----------------------------------------------------------------------- bound 0 is a barrier at the server


class Barrier(ParameterServer):
    """All workers push, the server applies one after the other and answers when it has all of them."""

    def server(self, rank: Rank) -> Program:
        arrived: dict[int, list[object]] = {worker: [] for worker in rank.workers}
        finished: list[int] = []
        while True:
            push = yield Receive(ANY)
            arrived[push.source].append(push.value)
            if len(arrived[push.source]) < rank.pushes():
                continue
            yield Update(arrived[push.source])
            arrived[push.source] = []
            finished.append(push.source)
            if len(finished) == rank.world:
                for worker in finished:
                    yield Send(rank.weights, to=worker)
                finished = []


@given(data=st.data())
@settings(max_examples=60)
def test_bound_zero_has_the_step_times_of_a_barrier(data: Any, jobs: Any, make_job: Any) -> None:
    """SSP with bound 0 and a barrier written down as such have the same step marks, to the bit."""
    draw = data.draw
    options = {
        "servers": draw(st.integers(1, 3)),
        "placement": draw(st.sampled_from(["colocated", "dedicated"])),
    }
    ranks = draw(st.integers(1, 9))
    settings_ = {
        "ranks": ranks,
        "ranks_per_node": draw(st.integers(1, 3)),
        "backward_s": (0.3, 0.1),
        "sizes": (draw(st.integers(0, 10**8)), 10**7),
        "jitter": draw(st.sampled_from([Jitter(), Jitter(0.1, 0.1, 0.2)])),
        "latency_s": draw(st.sampled_from([0.0, 1e-3])),
        "update_s": draw(st.sampled_from([0.0, 0.1])),
        "steps": 12,
    }
    ssp = events.simulate(make_job("ssp", options={"bound": 0, **options}, **settings_))
    barrier = events.simulate(make_job(Barrier(**options), **settings_))
    np.testing.assert_array_equal(ssp.marks_ps, barrier.marks_ps)


@pytest.mark.parametrize("ranks", [2, 3, 8])
@pytest.mark.parametrize("servers", [1, 2])
def test_staleness_of_bound_zero(ranks: int, servers: int, make_job: Any, record_of: Any) -> None:
    """The i-th push since the barrier is applied to weights i updates on: (ranks - 1)/2 in the mean."""
    job = make_job(
        "ssp", options={"bound": 0, "servers": servers}, ranks=ranks, backward_s=(0.3, 0.3),
        sizes=(10**7, 10**7), jitter=Jitter(independent=0.1), steps=20,
    )  # fmt: skip
    record = record_of(job)
    assert record.staleness_mean == pytest.approx((ranks - 1) / 2, rel=1e-12)
    assert record.staleness_max == ranks - 1
    assert record.clock_gap_max == 0


# ---------------------------------------------------------------------------------- where the time goes


@given(data=st.data())
@settings(max_examples=max(100, settings().max_examples))
def test_parts_add_up(
    data: Any, server_jobs: Any, all_reduce_jobs: Any, record_of: Any, assert_parts_add_up: Any
) -> None:
    """Six parts, none negative, make up every rank's window to the picosecond, for any scheme."""
    assert_parts_add_up(record_of(data.draw(st.one_of(server_jobs, all_reduce_jobs))))


@given(data=st.data())
@settings(max_examples=50)
def test_one_worker_alone_is_fully_efficient(data: Any, jobs: Callable[..., Any], record_of: Any) -> None:
    """N = 1: no scheme communicates, and the time is exactly what the worker takes alone."""
    scheme = data.draw(
        st.sampled_from(
            [("sync", {}), ("sync-overlap", {}), ("pseudo-sync", {"delay": 3}), ("async", {}), ("ssp", {}),
             ("ssp", {"bound": 0, "servers": 3})]
        )
    )  # fmt: skip
    job = data.draw(jobs(schemes=st.just(scheme), max_ranks=1))
    record = record_of(job)
    assume(record.first[0] >= job.scheme.pattern() - 1)  # else the first steps applied nothing
    np.testing.assert_array_equal(record.alone_ps, record.window_ps)
    assert record.bytes_sent.tolist() == [0.0]
    for part in ("wait_ps", "queue_ps", "transfer_ps", "in_transfer_ps", "interference_ps"):
        assert getattr(record, part).tolist() == [0]
    expected = analytic.estimate(job) if not job.jitter.jitter and job.network.channel_width == 1 else None
    if expected is not None and job.jitter.slowdown is None:
        assert expected.step_s == pytest.approx(expected.alone_s, rel=1e-12)


def test_what_a_worker_waits_for_is_told_apart(make_job: Any, record_of: Any) -> None:
    """Alone at a dedicated server: push, own update and pull are transfer; a second worker adds queueing."""
    settings_ = {"options": {"placement": "dedicated"}, "update_s": 0.25, "latency_s": 0.01, "steps": 20}
    alone = record_of(make_job("async", ranks=1, **settings_))
    steps = int(alone.steps_measured[0])
    assert alone.transfer_ps[0] == steps * round((0.1 + 0.01 + 0.25 + 0.1 + 0.01) / PS)
    assert (alone.queue_ps[0], alone.wait_ps[0], alone.update_ps[0]) == (0, 0, 0)
    assert alone.bytes_sent[0] == steps * 10**8
    two = record_of(make_job("async", ranks=4, **{**settings_, "update_s": 0.5}))
    assert two.queue_ps.min() > 0
    np.testing.assert_allclose(two.window_ps / two.steps_measured * PS, 2.0, rtol=1e-9)


def test_a_server_beside_its_worker_costs_the_update_only(make_job: Any, record_of: Any) -> None:
    """Worker 0 shares its node with the server: no bytes, and the server's work for it counts as update."""
    record = record_of(make_job("async", ranks=1, update_s=0.25, steps=10))
    assert record.update_ps[0] == record.steps_measured[0] * round(0.25 / PS)
    assert record.transfer_ps[0] == 0


def test_incast_shares_the_servers_nic(make_job: Any, record_of: Any) -> None:
    """Four equal workers push .1 s of bytes at once: each takes .4 s, and so does each pull.

    Of the .8 s blocked a quarter is their own transfer, the rest is queueing.
    """
    job = make_job("ssp", options={"bound": 0, "placement": "dedicated"}, ranks=4, steps=10)
    record = record_of(job)
    np.testing.assert_allclose(record.window_ps / record.steps_measured * PS, 1.8, rtol=1e-9)
    np.testing.assert_allclose(record.transfer_ps / record.steps_measured * PS, 0.2, rtol=1e-9)
    np.testing.assert_allclose(record.queue_ps / record.steps_measured * PS, 0.6, rtol=1e-9)


@pytest.mark.parametrize(
    ("ranks", "ranks_per_node", "servers", "expected_s"),
    [
        # Buckets of .5 s are ready at .5 and .6 s.  Alone, the two share the worker's own link out: through
        # at 1.4 and 1.5 s.  So do the answers, from then on, its link in: 2.3 and 2.4 s.
        (1, 1, 2, 2.4),
        # Two workers: each of the four links carries two messages at most times; through at 1.5 and 1.6 s.
        (2, 1, 2, 2.6),
        # Two workers on one node: its link carries all four; through at 2.4 and 2.5 s.
        (2, 2, 2, 4.4),
        # One server answers with both buckets at once: 1 s alone.
        (1, 1, 1, 2.5),
        (2, 1, 1, 4.5),
    ],
)
def test_several_servers_take_the_incast_apart(
    ranks: int,
    ranks_per_node: int,
    servers: int,
    expected_s: float,
    make_job: Any,
    record_of: Any,
    step_s: Any,
) -> None:
    """Messages have the max-min share of their sender's and receiver's links, worked out by hand."""
    job = make_job(
        "async", options={"servers": servers, "placement": "dedicated"}, ranks=ranks,
        ranks_per_node=ranks_per_node, backward_s=(0.1, 0.1), sizes=(5 * 10**8,) * 2, steps=10,
    )  # fmt: skip
    assert step_s(record_of(job)) == pytest.approx(expected_s, rel=1e-9)


class EachByItself(ParameterServer):
    """Asynchronous training whose server applies each bucket as it arrives."""

    def server(self, rank: Rank) -> Program:
        arrived = dict.fromkeys(rank.workers, 0)
        while True:
            push = yield Receive(ANY)
            yield Update([push.value])
            arrived[push.source] += 1
            if arrived[push.source] == rank.pushes():
                arrived[push.source] = 0
                yield Send(rank.weights, to=push.source)


@given(data=st.data())
@settings(max_examples=40)
def test_parts_add_up_where_a_push_is_applied_in_pieces(
    data: Any, jobs: Any, record_of: Any, assert_parts_add_up: Any
) -> None:
    """The server's work for a worker's earlier buckets is that worker's transfer, not queueing twice."""
    schemes = st.tuples(
        st.builds(EachByItself, placement=st.sampled_from(["colocated", "dedicated"])), st.just({})
    )
    job = data.draw(jobs(schemes=schemes, max_ranks=5, max_steps=10))
    assert_parts_add_up(record_of(job))


def test_own_pushes_applied_in_pieces_are_no_queue(make_job: Any, record_of: Any) -> None:
    """One worker whose buckets arrive at .6 and .7 s, and take .5 s each to apply, waits for nobody else."""
    job = make_job(
        EachByItself(placement="dedicated"), ranks=1, backward_s=(0.1, 0.1), sizes=(10**8, 10**8),
        update_s=1.0, steps=10,
    )  # fmt: skip
    record = record_of(job)
    assert (record.queue_ps[0], record.wait_ps[0]) == (0, 0)
    assert record.transfer_ps[0] == record.window_ps[0] - record.compute_ps[0]
    assert record.window_ps[0] == record.steps_measured[0] * round((0.6 + 1.0 + 0.2) / PS)


@given(
    st.lists(st.integers(0, 100), min_size=1, max_size=12),
    st.integers(1, 6),
)
def test_every_bucket_lives_on_one_server(sizes: list[int], servers: int) -> None:
    """Shards hold each bucket once; the heaviest holds at most a bucket more than the mean."""
    buckets = tuple(Bucket(index, size, 0.1, 1) for index, size in enumerate(sizes))
    shards = shard(buckets, servers)
    assert sorted(bucket.index for held in shards for bucket in held) == list(range(len(sizes)))
    loads = [sum(bucket.size_bytes for bucket in held) for held in shards]
    assert max(loads) <= sum(sizes) / servers + max(sizes)


def test_worker_clocks_know_the_slowest() -> None:
    """Ticks move the slowest only when the last of the slowest ticks."""
    clocks = WorkerClocks([3, 5])
    assert not clocks.tick(3)
    assert (clocks.gap(3), clocks.gap(5), clocks.slowest) == (1, 0, 0)
    assert not clocks.tick(3)
    assert clocks.tick(5)
    assert (clocks.gap(3), clocks.slowest, clocks[3]) == (1, 1, 2)


# --------------------------------------------------------------------------- ties and order of service

served: list[tuple[int, ...]] = []


class InOrder(Scheme):
    """Two workers whose messages are through at one instant; notes whom the server takes first."""

    has_server: ClassVar[bool] = True

    def worker(self, rank: Rank) -> Program:
        large, small = rank.buckets
        for _ in rank.steps():
            yield Forward()
            gradient = yield Backward(large)
            if rank.index == 0:
                gradient = yield Backward(small)
                yield Compute("late", 0.1)
            else:
                yield Backward(small)
            yield Send(gradient, to=rank.servers[0])
            yield Receive(rank.servers[0])

    def server(self, rank: Rank) -> Program:
        while True:
            first = yield Receive(ANY)
            second = yield Receive(ANY)
            served.append((first.source, second.source))
            for worker in rank.workers:
                yield Send(rank.weights, to=worker)

    def dedicated_servers(self) -> bool:
        return True


@pytest.mark.parametrize("latency_s", [0.0, 1e-3])
def test_the_lower_rank_is_served_first_of_two_that_arrive_at_once(latency_s: float, make_job: Any) -> None:
    """Rank 1 began to send earlier, and more; both are through at the same picosecond."""
    served.clear()
    events.simulate(
        make_job(
            InOrder(), ranks=2, backward_s=(0.3, 0.3), sizes=(2 * 10**8, 10**8), latency_s=latency_s, steps=3
        )
    )
    assert served == [(0, 1)] * 3


# ------------------------------------------------------------------------------------- analytic against


def simulated(job: Job) -> tuple[RawLog, float]:
    raw = events.simulate(job)
    half = job.steps // 2
    return raw, float((raw.marks_ps[-1] - raw.marks_ps[half]).mean()) * PS / (job.steps - half)


@pytest.mark.parametrize("ranks", [2, 3, 8])
@pytest.mark.parametrize("placement", ["colocated", "dedicated"])
@pytest.mark.parametrize("bound", [None, 1, 3])
def test_a_saturated_server_is_exact(
    ranks: int, placement: str, bound: int | None, make_job: Any, record_of: Any, step_s: Any
) -> None:
    """A serial server that never idles: every step is ranks x service, to 1e-9 or 1 ps an action."""
    job = make_job(
        "async", options={"bound": bound, "placement": placement}, ranks=ranks, update_s=4.0, latency_s=1e-3,
        backward_s=(0.3, 0.3), sizes=(10**7, 10**7), steps=40,
    )  # fmt: skip
    expected = analytic.estimate(job)
    assert (expected.low_s, expected.step_s, expected.high_s) == (ranks * 4.0,) * 3
    assert step_s(record_of(job)) == pytest.approx(ranks * 4.0, rel=1e-9)


@given(data=st.data())
@settings(max_examples=60)
def test_one_worker_alone_is_exact(data: Any, jobs: Any, record_of: Any, step_s: Any) -> None:
    """Several buckets, servers and placements: one worker has a closed form, to 1e-9 or 1 ps an action."""
    options = st.fixed_dictionaries(
        {
            "bound": st.sampled_from(BOUNDS),
            "servers": st.integers(1, 4),
            "placement": st.sampled_from(["colocated", "dedicated"]),
        }
    )
    job = data.draw(jobs(schemes=st.tuples(st.just("async"), options), max_ranks=1, jitter=False))
    expected = analytic.estimate(job)
    assert expected.low_s == expected.high_s == expected.step_s
    found = step_s(record_of(job))
    actions = 6 * len(job.workload.buckets) + 6
    assert found == pytest.approx(expected.step_s, abs=max(1e-9 * found, actions * PS))


@given(data=st.data())
@settings(max_examples=max(120, settings().max_examples))
def test_simulation_never_leaves_the_bounds(data: Any, make_job: Any, record_of: Any, step_s: Any) -> None:
    """Workers, servers, placements, bandwidths and updates at random: low <= simulated <= high.

    The window cuts through cycles, so a mean over m steps may fall short of the lower bound by a part
    in m^2; 0.1 % is allowed for that, and nothing above.
    """
    draw = data.draw
    buckets = draw(st.integers(1, 4))
    backward = draw(st.lists(st.floats(1e-3, 1.0), min_size=buckets, max_size=buckets))
    sizes = draw(st.lists(st.sampled_from([0, 10**3, 10**6, 5 * 10**7]), min_size=buckets, max_size=buckets))
    compute = 0.2 + sum(backward)
    ratio = draw(st.sampled_from([0.01, 0.05, 0.2, 1.0, 5.0]))
    job = make_job(
        "async",
        options={
            "bound": draw(st.sampled_from(BOUNDS)),
            "servers": draw(st.integers(1, 4)),
            "placement": draw(st.sampled_from(["colocated", "dedicated"])),
        },
        ranks=draw(st.integers(1, 12)),
        ranks_per_node=draw(st.sampled_from([1, 1, 2, 4])),
        forward_s=0.2,
        backward_s=backward,
        sizes=sizes,
        bandwidth=2 * sum(sizes) / (ratio * compute) or 1e9,
        update_s=draw(st.sampled_from([0.0, 0.001, 0.1, 1.0])) * compute,
        latency_s=draw(st.sampled_from([0.0, 1.5e-6, 0.05])),
        steps=40,
    )
    expected = analytic.estimate(job)
    found = step_s(record_of(job))
    assert expected.low_s <= expected.step_s <= expected.high_s
    assert expected.low_s * (1 - 1e-3) <= found <= expected.high_s * (1 + 1e-9)


@pytest.mark.parametrize("bound", [None, 0, 2])
@pytest.mark.parametrize("jitter", [Jitter(0, 0, 0.3), Jitter(0.1, 0.1, 0.1)], ids=["independent", "all"])
@pytest.mark.parametrize(("servers", "placement"), [(1, "dedicated"), (1, "colocated"), (3, "dedicated")])
def test_simulation_with_jitter_stays_within_the_bounds(
    bound: int | None,
    jitter: Jitter,
    servers: int,
    placement: str,
    make_job: Any,
    record_of: Any,
    step_s: Any,
) -> None:
    """The mean over 6 replications, allowing 4 of its standard errors, at three loads."""
    for (ratio, update_s), ranks in product([(0.02, 0.0), (0.3, 0.02), (0.05, 0.3)], [3, 6]):
        jobs = [
            make_job(
                "async",
                options={"bound": bound, "servers": servers, "placement": placement},
                ranks=ranks, backward_s=(0.3, 0.3), sizes=(round(ratio * 5e8), round(ratio * 3e8)),
                update_s=update_s, jitter=jitter, replication=replication, steps=30,
            )
            for replication in range(6)
        ]  # fmt: skip
        steps_s = np.array([step_s(record_of(job)) for job in jobs])
        error = steps_s.std(ddof=1) / np.sqrt(len(steps_s))
        expected = analytic.estimate(jobs[0])
        assert expected.low_s - 4 * error <= steps_s.mean() <= expected.high_s + 4 * error
