"""Random numbers: addressed by name, common to all sizes, schemes and engines, and log-normal as stated."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pssim.cluster import Jitter, JitterSource, Placement, fill_nodes
from pssim.engine import events, vector
from pssim.streams import stream

ALL_PARTS = Jitter(persistent=0.1, node=0.2, independent=0.3)


def test_a_stream_depends_on_seed_and_name_only() -> None:
    """The same seed and name give the same numbers, whatever was drawn before; another of either does not."""
    first = stream(1, "jitter", 0, 5).standard_normal(4)
    stream(1, "something else").standard_normal(1000)
    np.testing.assert_array_equal(stream(1, "jitter", 0, 5).standard_normal(4), first)
    for other in (stream(2, "jitter", 0, 5), stream(1, "jitter", 0, 6), stream(1, "jitter", 5, 0)):
        assert not np.allclose(other.standard_normal(4), first)


@pytest.mark.parametrize("small", [1, 7, 500])
def test_a_rank_has_the_same_factors_in_any_cluster(small: int) -> None:
    """The first ranks of 1,000 have what they have in a smaller cluster, for each of the parts."""
    for jitter in (Jitter(0.1, 0, 0), Jitter(0, 0.2, 0), Jitter(0, 0, 0.3), ALL_PARTS):
        few = JitterSource(jitter, fill_nodes(small, 4))
        many = JitterSource(jitter, fill_nodes(1000, 4))
        for step in (0, 1, 99):
            np.testing.assert_array_equal(many.factors(step)[:small], few.factors(step))


def test_replication_and_seed_change_all_parts() -> None:
    """No part of the jitter is shared between replications or seeds."""
    placement = fill_nodes(8, 2)
    for jitter in (Jitter(0.1, 0, 0), Jitter(0, 0.2, 0), Jitter(0, 0, 0.3)):
        first = JitterSource(jitter, placement, seed=1, replication=0).factors(3)
        for other in (
            JitterSource(jitter, placement, seed=2, replication=0),
            JitterSource(jitter, placement, seed=1, replication=1),
        ):
            assert not np.isclose(other.factors(3), first).any()


def test_what_is_persistent_stays_and_what_is_the_nodes_is_shared() -> None:
    """Persistent factors are constant in time, node factors common to a node, independent ones neither."""
    placement = fill_nodes(6, 3)
    persistent = JitterSource(Jitter(persistent=0.2), placement)
    assert not persistent.varies_in_time
    np.testing.assert_array_equal(persistent.factors(0), persistent.factors(7))
    assert len(set(persistent.factors(0))) == 6
    node = JitterSource(Jitter(node=0.2), placement)
    assert node.varies_in_time
    assert [len(set(node.factors(0)[nodes])) for nodes in (slice(0, 3), slice(3, 6))] == [1, 1]
    assert len(set(node.factors(0))) == 2
    assert not np.isclose(node.factors(0), node.factors(1)).any()
    independent = JitterSource(Jitter(independent=0.2), placement)
    assert len(set(independent.factors(0)) | set(independent.factors(1))) == 12


def test_no_jitter_is_exactly_one() -> None:
    """And slowdown alone is exactly itself."""
    source = JitterSource(Jitter(), fill_nodes(3, 1), slowdown=(1.0, 1.5, 2.0))
    assert source.factors(4).tolist() == [1.0, 1.5, 2.0]
    assert not source.varies_in_time
    assert not Jitter()
    assert Jitter(persistent=0.1)


@pytest.mark.parametrize("cv", [0.02, 0.3, 1.0])
@pytest.mark.parametrize("part", ["persistent", "node", "independent"])
def test_factors_have_mean_one_and_the_coefficient_of_variation_asked_for(part: str, cv: float) -> None:
    """Over 200,000 draws: the mean, and mean and spread of the logarithm, within 4.5 standard errors each."""
    ranks, steps = 2000, 100
    placement = fill_nodes(ranks, 1)
    sources = [JitterSource(Jitter(**{part: cv}), placement, replication=r) for r in range(steps)]
    drawn = np.array([source.factors(step) for step, source in enumerate(sources)]).ravel()
    assert drawn.min() > 0
    error = cv / np.sqrt(drawn.size)
    assert abs(drawn.mean() - 1.0) < 4.5 * error
    logarithm = np.log(drawn)
    sigma = np.sqrt(np.log1p(cv * cv))
    assert abs(logarithm.std() - sigma) < 4.5 * sigma / np.sqrt(2 * drawn.size)
    assert abs(logarithm.mean() + sigma**2 / 2) < 4.5 * sigma / np.sqrt(drawn.size)


def test_the_parts_multiply() -> None:
    """All three together are the product of each by itself."""
    placement = fill_nodes(12, 3)
    parts = (Jitter(persistent=0.1), Jitter(node=0.2), Jitter(independent=0.3))
    product = np.prod([JitterSource(part, placement).factors(5) for part in parts], axis=0)
    np.testing.assert_allclose(JitterSource(ALL_PARTS, placement).factors(5), product, rtol=1e-14)


def test_factors_of_ranks_nodes_and_steps_are_uncorrelated() -> None:
    """Of 1,000 ranks over 1,000 steps, neighbours in rank or time correlate less than 5 / sqrt(10^6)."""
    source = JitterSource(Jitter(independent=0.3), fill_nodes(1000, 1))
    drawn = np.log(np.array([source.factors(step) for step in range(1000)]))
    drawn = (drawn - drawn.mean()) / drawn.std()
    assert abs((drawn[1:] * drawn[:-1]).mean()) < 5e-3
    assert abs((drawn[:, 1:] * drawn[:, :-1]).mean()) < 5e-3


# ---------------------------------------------------------------------------------------- relabelling


@given(data=st.data())
@settings(max_examples=40)
def test_relabelling_changes_nothing(data: Any, make_job: Any, record_of: Any) -> None:
    """Ranks renumbered together with their node, speed and random stream take the same steps, renumbered."""
    draw = data.draw
    ranks = draw(st.integers(2, 12))
    order = draw(st.permutations(range(ranks)))  # the new rank i is the old rank order[i]
    scheme = draw(st.sampled_from(["sync", "sync-overlap", "pseudo-sync", "async", "ssp"]))
    node_of_rank = draw(st.lists(st.integers(0, 3), min_size=ranks, max_size=ranks))
    slowdown = draw(st.lists(st.sampled_from([1.0, 1.2, 1.7]), min_size=ranks, max_size=ranks))
    latency_s = draw(st.sampled_from([0.0, 1e-3]))
    settings_ = {
        "scheme": scheme, "jitter": ALL_PARTS, "backward_s": (0.3, 0.3), "sizes": (3 * 10**7, 5 * 10**7),
        "update_s": 0.02, "latency_s": latency_s, "steps": 12,
    }  # fmt: skip
    job = make_job(placement=Placement(tuple(node_of_rank)), slowdown=slowdown, **settings_)
    relabelled = make_job(
        placement=Placement(tuple(node_of_rank[old] for old in order)),
        slowdown=[slowdown[old] for old in order],
        streams=list(order),
        **settings_,
    )
    engines = [events] if job.scheme.has_server else [events, vector]
    for engine in engines:
        one, other = engine.simulate(job), engine.simulate(relabelled)
        np.testing.assert_array_equal(other.marks_ps, one.marks_ps[:, list(order)])
        before, after = record_of(job, raw=one), record_of(relabelled, raw=other)
        for part in ("compute_ps", "update_ps", "wait_ps", "queue_ps", "transfer_ps", "in_transfer_ps"):
            np.testing.assert_array_equal(getattr(after, part), getattr(before, part)[list(order)])
        assert after.staleness_mean == before.staleness_mean
        assert after.clock_gap_max == before.clock_gap_max


def test_renumbering_nodes_changes_nothing(make_job: Any) -> None:
    """Nodes are names: with their random streams they may be called anything."""
    calls = {0: 7, 1: 3, 2: 0}
    job = make_job("pseudo-sync", jitter=ALL_PARTS, placement=Placement((0, 0, 1, 1, 2)), steps=10)
    renamed = make_job(
        "pseudo-sync",
        jitter=ALL_PARTS,
        placement=Placement(tuple(calls[node] for node in (0, 0, 1, 1, 2))),
        node_streams={new: old for old, new in calls.items()},
        steps=10,
    )
    np.testing.assert_array_equal(vector.simulate(renamed).marks_ps, vector.simulate(job).marks_ps)


def test_schemes_and_engines_share_their_random_numbers(make_job: Any) -> None:
    """Rank i computes for the same time in step j under every scheme and engine: comparisons are paired."""
    compute = []
    for scheme in ("sync", "sync-overlap", "pseudo-sync", "async", "ssp"):
        job = make_job(scheme, jitter=ALL_PARTS, ranks=6, ranks_per_node=2, steps=8)
        engines = [events] if job.scheme.has_server else [events, vector]
        compute += [engine.simulate(job).snapshots[8][0].tolist() for engine in engines]
    assert all(each == compute[0] for each in compute)


def test_hash_seed_changes_nothing() -> None:
    """Two processes with different PYTHONHASHSEED write down the same bytes, for every scheme."""
    program = textwrap.dedent(
        """
        import hashlib
        from pssim.cluster import Jitter, JitterSource, fill_nodes
        from pssim.engine import events, vector
        from pssim.engine.job import Job, server_nodes
        from pssim.engine.measure import measure
        from pssim.network import Link, Network
        from pssim.registry import find_variant
        from pssim.workload.step import Bucket, StepWorkload

        placement = fill_nodes(9, 2)
        buckets = tuple(Bucket(index, 10**7 * (index + 1), 0.1, 1) for index in range(5))
        workload = StepWorkload(0.4, buckets, 0.01, 32, False, ())
        network = Network(Link(1e-6, 1e9), Link(1e-6, 1e10), "auto", 2)
        for name in ("sync", "sync-overlap", "pseudo-sync", "async", "ssp"):
            scheme = find_variant(name).build({"servers": 3} if name in ("async", "ssp") else {})
            servers = server_nodes(3, False, 5) if scheme.has_server else ()
            source = JitterSource(Jitter(0.1, 0.1, 0.1), placement)
            job = Job(name, scheme, placement, workload, network, source, 12, servers)
            for engine in (events,) if scheme.has_server else (events, vector):
                raw = engine.simulate(job)
                record = measure(raw, pattern=2, warm_up=0, update_ps=sum(job.update_ps))
                values = [getattr(record, field) for field in record.__dataclass_fields__ if field != "raw"]
                text = repr([value.tolist() if hasattr(value, "tolist") else value for value in values])
                print(name, engine.__name__, hashlib.sha256(text.encode()).hexdigest())
        """
    )
    written = []
    for seed in ("0", "4242"):
        ran = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        written.append(ran.stdout)
    assert len(written[0].splitlines()) == 8
    assert written[0] == written[1]


# ------------------------------------------------------------------------- what jitter does to schemes


@pytest.mark.parametrize("ranks", [16, 256])
def test_a_delay_of_one_step_absorbs_independent_jitter(ranks: int, make_job: Any, record_of: Any) -> None:
    """Independent jitter of 10 % costs sync the slowest rank of each step, pseudo-sync a fraction of that."""
    loss = {}
    for scheme in ("sync", "pseudo-sync"):
        job = make_job(
            scheme, ranks=ranks, jitter=Jitter(independent=0.1), steps=300, sizes=(10**6,), bandwidth=1e9
        )
        record = record_of(job, "vector")
        loss[scheme] = float((record.window_ps / record.steps_measured).mean()) / 1e12 - 1.0
    assert loss["sync"] > 0.15
    assert loss["pseudo-sync"] < 0.4 * loss["sync"]


def test_no_delay_absorbs_a_slow_rank(make_job: Any, record_of: Any) -> None:
    """One rank 10 % slower for good costs every all-reduce scheme 10 %."""
    for scheme, options in (("sync", {}), ("pseudo-sync", {}), ("pseudo-sync", {"delay": 4})):
        job = make_job(
            scheme, options=options, ranks=16, slowdown=[1.1] + [1.0] * 15, steps=200, sizes=(1,),
            bandwidth=1e12,
        )  # fmt: skip
        record = record_of(job, "vector")
        step_s = float((record.window_ps / record.steps_measured).mean()) / 1e12
        assert step_s == pytest.approx(1.1, rel=1e-9)


def test_async_is_held_up_by_no_slow_rank(make_job: Any, record_of: Any) -> None:
    """With one rank half as fast, the other workers of async keep their own pace."""
    job = make_job(
        "async", ranks=8, slowdown=[2.0] + [1.0] * 7, steps=40, sizes=(1000,), bandwidth=1e12
    )
    record = record_of(job)
    own = record.window_ps / record.steps_measured / 1e12
    assert own[1:] == pytest.approx(np.ones(7), rel=1e-3)
    assert own[0] == pytest.approx(2.0, rel=1e-3)
