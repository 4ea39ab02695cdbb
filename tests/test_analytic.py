"""The analytic engine: exact expectations, bounds, and approximations whose error is known."""

from __future__ import annotations

import importlib.util
import sys
from math import inf
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from pssim.cluster import Jitter, JitterSource, fill_nodes
from pssim.cluster.jitter import log_normal_sigma
from pssim.engine import analytic, vector
from pssim.program import Forward, NoClosedForm, Program, Rank, Scheme
from pssim.theory import slowest_factor

PS = 1e-12


# -------------------------------------------------------------------------------- the slowest of many


@pytest.mark.parametrize("ranks", [1, 2, 16, 1000])
@pytest.mark.parametrize("cv", [0.02, 0.3])
def test_expected_slowest_of_independent_ranks(ranks: int, cv: float) -> None:
    """The mean of the largest of N log-normals by integration over its density, to 1e-5 of the spread."""
    sigma = log_normal_sigma(cv)
    z = np.linspace(-9, 9, 200_001)
    density = ranks * norm.pdf(z) * norm.cdf(z) ** (ranks - 1)
    expected = np.trapezoid(density * np.exp(sigma * z - sigma**2 / 2), z)
    assert slowest_factor((1,) * ranks, sigma, 0.0).mean == pytest.approx(expected, abs=1e-5 * cv)


@pytest.mark.parametrize("per_node", [(4,) * 8, (5, 4, 1), (16,)])
def test_expected_slowest_with_a_part_common_to_nodes(per_node: tuple[int, ...]) -> None:
    """Against 40,000 draws, within 4.5 of their standard errors."""
    draws = np.random.default_rng(1)
    node = np.repeat(np.arange(len(per_node)), per_node)
    rank = draws.standard_normal((40_000, len(node)))
    common = draws.standard_normal((40_000, len(per_node)))[:, node]
    for sigma_rank, sigma_node in ((0.1, 0.2), (0.0, 0.2), (0.3, 0.05)):
        exponent = sigma_rank * rank + sigma_node * common - (sigma_rank**2 + sigma_node**2) / 2
        slowest = np.exp(exponent).max(axis=1)
        found = slowest_factor(per_node, sigma_rank, sigma_node)
        assert abs(found.mean - slowest.mean()) < 4.5 * slowest.std() / 200
        second = found.mean_of(lambda factor: factor**2)
        assert abs(second - (slowest**2).mean()) < 4.5 * (slowest**2).std() / 200


spreads = st.one_of(st.just(0.0), st.floats(0.001, 0.5))


@given(st.integers(1, 50), st.integers(1, 8), spreads, spreads)
@settings(max_examples=25)
def test_slowest_is_a_distribution_that_grows(ranks: int, per_node: int, rank: float, node: float) -> None:
    """Probabilities add up to 1; more ranks are never faster; one rank has mean 1."""
    found = slowest_factor(fill_nodes(ranks, per_node).ranks_per_node, rank, node)
    assert sum(found.probabilities) == pytest.approx(1.0, abs=1e-9)
    assert min(found.probabilities) >= 0
    more = slowest_factor(fill_nodes(ranks + 1, per_node).ranks_per_node, rank, node)
    assert more.mean >= found.mean - 1e-4 * (rank + node)
    assert slowest_factor((1,), rank, node).mean == pytest.approx(1.0, abs=1e-4 * (rank + node))


def test_no_spread_is_certainty() -> None:
    """Without jitter the slowest factor is 1, exactly."""
    nothing = slowest_factor((4, 4), 0.0, 0.0)
    assert (list(nothing.values), list(nothing.probabilities)) == ([1.0], [1.0])


# ---------------------------------------------------------------------------------------- synchronous


def replications(make_job: Any, scheme: str, count: int, **settings: Any) -> np.ndarray:
    """The mean step of each replication, after the first quarter."""
    found = []
    for replication in range(count):
        job = make_job(scheme, replication=replication, **settings)
        marks = vector.simulate(job).marks_ps
        first = job.steps // 4
        found.append(float((marks[-1] - marks[first]).mean()) * PS / (job.steps - first))
    return np.array(found)


@pytest.mark.parametrize(
    "jitter",
    [Jitter(independent=0.1), Jitter(node=0.1), Jitter(persistent=0.05), Jitter(0.03, 0.1, 0.2)],
    ids=["independent", "node", "persistent", "all"],
)
@pytest.mark.parametrize("scheme", ["sync", "sync-overlap"])
@pytest.mark.parametrize("width", [1, 2])
def test_expected_synchronous_step_is_exact(jitter: Jitter, scheme: str, width: int, make_job: Any) -> None:
    """Against the mean of 40 replications: within z = 4 of their standard error, which is below 1 %."""
    values = {
        "ranks": 24, "ranks_per_node": 4, "backward_s": (0.3, 0.3), "sizes": (2 * 10**8, 10**8),
        "update_s": 0.05, "jitter": jitter, "width": width, "steps": 40,
    }  # fmt: skip
    steps_s = replications(make_job, scheme, 40, **values)
    error = steps_s.std(ddof=1) / np.sqrt(len(steps_s))
    expected = analytic.estimate(make_job(scheme, **values))
    assert error < 0.01 * steps_s.mean()
    assert abs(expected.step_s - steps_s.mean()) < 4 * error
    assert expected.low_s == expected.step_s == expected.high_s


# -------------------------------------------------------------------------------------------- delayed


@pytest.mark.parametrize("delay", [1, 3])
@pytest.mark.parametrize("ratio", [0.3, 1.0, 1.6])
@pytest.mark.parametrize("jitter", [Jitter(0, 0, 0.2), Jitter(node=0.1), Jitter(0.05, 0.05, 0.1)], ids=str)
def test_delayed_steps_with_jitter_stay_within_the_bounds(
    delay: int, ratio: float, jitter: Jitter, make_job: Any
) -> None:
    """Lower bound, approximation, upper bound in this order; the mean of 12 replications between, z = 4."""
    size = round(ratio / 2 * 1e9 / 1.9)
    values = {
        "options": {"delay": delay}, "ranks": 20, "ranks_per_node": 4, "backward_s": (0.3, 0.3),
        "sizes": (size, size), "jitter": jitter, "steps": 160,
    }  # fmt: skip
    steps_s = replications(make_job, "pseudo-sync", 12, **values)
    error = steps_s.std(ddof=1) / np.sqrt(len(steps_s))
    expected = analytic.estimate(make_job("pseudo-sync", **values))
    assert expected.low_s <= expected.step_s <= expected.high_s
    # Beside noise, the filling of the queue may be within the window: that is below 0.2 %.
    assert expected.low_s * 0.998 - 4 * error <= steps_s.mean() <= expected.high_s + 4 * error


def test_a_persistent_spread_alone_is_exact(make_job: Any) -> None:
    """Ranks that differ for good have one pace: with 400 replications, within z = 4."""
    values = {"ranks": 8, "jitter": Jitter(persistent=0.1), "sizes": (2 * 10**8,), "steps": 40}
    steps_s = []
    for replication in range(400):
        marks = vector.simulate(make_job("pseudo-sync", replication=replication, **values)).marks_ps
        steps_s.append(float((marks[-1] - marks[-11]).mean()) * PS / 10)
    expected = analytic.estimate(make_job("pseudo-sync", **values))
    assert expected.low_s == expected.high_s
    assert abs(np.mean(steps_s) - expected.step_s) < 4 * np.std(steps_s, ddof=1) / 20


@pytest.fixture(scope="module")
def approximation_error() -> ModuleType:
    """The benchmark that prints the table of errors."""
    path = Path(__file__).parent.parent / "benchmarks" / "approximation_error.py"
    spec = importlib.util.spec_from_file_location("approximation_error", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_approximation_for_delayed_schemes_is_as_good_as_stated(approximation_error: ModuleType) -> None:
    """Small grid, jitter varying in time: mean below 0.4 %, none above 1.5 %, within bounds (z = 4)."""
    grid = approximation_error.delayed_grid(quick=True)
    jobs = [(point, job) for point, job in grid if not job.jitter.jitter.persistent]
    errors = [approximation_error.error("delayed", point, job, 2) for point, job in jobs]
    relative = np.array([abs(error.relative) for error in errors])
    assert len(errors) == 24
    assert relative.mean() < 0.004
    assert relative.max() < 0.015
    assert not any(map(approximation_error.outside, errors))


@pytest.mark.parametrize(
    ("bound", "jitter", "mean", "largest"),
    [(None, False, 0.10, 0.46), (None, True, 0.05, 0.37), (0, False, 0.006, 0.05), (0, True, 0.035, 0.13)],
    ids=["async, no jitter", "async, jitter", "bound 0, no jitter", "bound 0, jitter"],
)
def test_the_approximation_for_servers_is_as_good_as_stated(
    bound: int | None, jitter: bool, mean: float, largest: float, approximation_error: ModuleType
) -> None:
    """Small grid: the error is below the stated mean and maximum, and no point is out of bounds (z = 4).

    Workers that stay in phase, which only a run without variation does for ever, are the worst.
    """
    jobs = [
        (point, job)
        for point, job in approximation_error.server_grid(quick=True)
        if job.scheme.bound == bound and bool(job.jitter.jitter) == jitter
    ]
    errors = [approximation_error.error("server", point, job, 2) for point, job in jobs]
    relative = np.array([abs(error.relative) for error in errors])
    assert len(errors) == 24
    assert relative.mean() < mean
    assert relative.max() < largest
    assert not any(map(approximation_error.outside, errors))


# --------------------------------------------------------------------------------- what it cannot say


class Unknown(Scheme):
    """A scheme without a closed form."""

    def worker(self, rank: Rank) -> Program:
        for _ in rank.steps():
            yield Forward()


def test_a_scheme_without_a_closed_form_is_refused_with_the_reason(make_job: Any) -> None:
    """The scheme is named, and what to define."""
    reasons = analytic.unsupported(make_job(Unknown()))
    assert len(reasons) == 1
    assert "Unknown" in reasons[0]
    assert "step_time" in reasons[0]
    assert analytic.unsupported(make_job("sync")) == []


def test_ranks_of_different_speed_with_jitter_are_refused(make_job: Any) -> None:
    """There is no closed form for both at once."""
    job = make_job("sync", slowdown=(1.5, 1.0, 1.0, 1.0), jitter=Jitter(independent=0.1))
    with pytest.raises(NoClosedForm, match="different speed"):
        analytic.estimate(job)


def test_the_estimate_knows_the_step_alone(make_job: Any) -> None:
    """Compute and update without communication."""
    found = analytic.estimate(make_job("sync", ranks=5, update_s=0.2))
    assert (found.compute_s, found.update_s, found.alone_s) == (1.0, 0.2, 1.2)


def test_averaged_jitter_is_less_jitter(make_job: Any) -> None:
    """The slowest mean over m steps falls with m, down to what is persistent."""
    job = make_job("sync", jitter=Jitter(0.05, 0.1, 0.2), ranks=32, ranks_per_node=4)
    slowest_of = analytic.step_costs(job).slowest_of
    means = [slowest_of(steps).mean_of(lambda factor: factor) for steps in (1, 2, 8, 64, inf)]
    assert means == sorted(means, reverse=True)
    only = make_job("sync", jitter=Jitter(persistent=0.05), ranks=32)
    assert means[-1] == pytest.approx(analytic.step_costs(only).slowest_of(1).mean_of(lambda factor: factor))


def test_the_source_of_jitter_and_the_closed_form_agree_on_their_mean() -> None:
    """The closed form's distribution is that of the factors the engines draw: 5,000 steps, z = 4.5."""
    jitter = Jitter(node=0.1, independent=0.2)
    placement = fill_nodes(12, 4)
    source = JitterSource(jitter, placement)
    slowest = np.array([source.factors(step).max() for step in range(5000)])
    found = slowest_factor(
        placement.ranks_per_node, log_normal_sigma(jitter.independent), log_normal_sigma(jitter.node)
    )
    assert abs(found.mean - slowest.mean()) < 4.5 * slowest.std() / np.sqrt(5000)
