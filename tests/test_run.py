"""From a scenario to points: the same records wherever they are computed, and what Ctrl-C leaves."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest

from pssim.errors import EngineError
from pssim.run import Interrupted, Point, run
from pssim.scenario import Loaded, load

run_module = sys.modules["pssim.run"]  # pssim.run, the attribute, is the function of that name

SCENARIO = """
question = "Does it run?"

[workload]
profile = "resnet50"
device = "tianhe2-node"
bucket_cap = "25 MiB"

[cluster]
cores_per_rank = 12
ranks_per_node = 2
link = { latency = "1.5 us", bandwidth = "6 GB/s" }
local_link = { latency = "0.3 us", bandwidth = "20 GB/s" }
jitter = { independent = 0.05 }

[training]
batch_per_rank = 8
nodes = [1, 2, 3]
steps = 20
replications = 2

[[scheme]]
name = "sync"

[[scheme]]
name = "pseudo-sync"
delay = 2

[[scheme]]
name = "async"
steps = 6
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Loaded:
    path = tmp_path / "small.toml"
    path.write_text(SCENARIO)
    return load(path)


def assert_same_points(one: list[Point], other: list[Point], assert_same_record: Any) -> None:
    assert len(one) == len(other)
    for left, right in zip(one, other, strict=True):
        for name in ("scheme_label", "nodes", "ranks", "cores", "samples_per_step", "engine", "notes"):
            assert getattr(left, name) == getattr(right, name), name
        assert len(left.records) == len(right.records)
        for record, again in zip(left.records, right.records, strict=True):
            assert record.engine == again.engine
            assert_same_record(record, again)


def test_points_are_in_the_scenarios_order(scenario: Loaded) -> None:
    """A point for each scheme and size, with all its replications, on the engine that suits it."""
    points = run(scenario, processes=1)
    assert [(point.scheme_label, point.nodes) for point in points] == [
        (scheme, nodes) for scheme in ("sync", "pseudo-sync[delay=2]", "async") for nodes in (1, 2, 3)
    ]
    assert [point.engine for point in points] == ["vector"] * 6 + ["events"] * 3
    for point in points:
        assert len(point.records) == 2
        assert (point.ranks, point.cores) == (2 * point.nodes, 24 * point.nodes)
        assert point.samples_per_step == 8
        assert {len(record.window_ps) for record in point.records} == {point.ranks}
        first, second = point.records
        assert (first.window_ps != second.window_ps).all()  # each with random numbers of its own


def test_steps_and_replications_may_be_set_by_scheme(scenario: Loaded) -> None:
    """async takes 6 steps here, the others 20; replications given to run go before the scenario's."""
    points = run(scenario, processes=1, replications=1)
    assert {len(point.records) for point in points} == {1}
    assert {int(point.records[0].last[0]) for point in points[:6]} == {20}
    assert {int(point.records[0].last[0]) for point in points[6:]} == {6}


def test_several_processes_give_the_same_records(
    scenario: Loaded, assert_same_record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where tasks run makes no difference to the bit; here all but the first go to a pool of two."""
    monkeypatch.setattr(run_module, "_WORTH_A_POOL_S", 0.0)
    used = []
    in_pool = run_module._in_pool

    def noted(loaded: Loaded, tasks: list[Any], *rest: Any) -> None:
        used.append(len(tasks))
        in_pool(loaded, tasks, *rest)

    monkeypatch.setattr(run_module, "_in_pool", noted)
    pooled = run(scenario, processes=2)
    assert used
    assert used[0] >= 10
    assert_same_points(pooled, run(scenario, processes=1), assert_same_record)


@pytest.mark.parametrize("engine", ["events", "auto"])
def test_engines_give_the_same_points(scenario: Loaded, engine: str, assert_same_record: Any) -> None:
    """Forcing the reference changes nothing but the engine's name."""
    schemes = scenario.scenario.schemes[:2]
    lock_step = Loaded(
        **{**vars(scenario), "scenario": scenario.scenario.model_copy(update={"schemes": schemes})}
    )
    for point, other in zip(run(lock_step, engine=engine), run(lock_step, engine="vector"), strict=True):
        for record, again in zip(point.records, other.records, strict=True):
            assert_same_record(record, again)


@pytest.mark.parametrize("pool", [False, True], ids=["here", "pool"])
@pytest.mark.parametrize("after", [1, 5])
def test_an_interrupt_keeps_what_is_finished(
    pool: bool, after: int, scenario: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C after so many replications: the points they make are there, whole, and the rest are not."""
    if pool:
        monkeypatch.setattr(run_module, "_WORTH_A_POOL_S", 0.0)
    seen: list[tuple[int, int, str]] = []

    def progress(done: int, total: int, what: str) -> None:
        seen.append((done, total, what))
        if done == after:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as caught:
        run(scenario, processes=2 if pool else 1, progress=progress)
    points = caught.value.points
    assert sum(len(point.records) for point in points) == after == len(seen)
    assert all(point.records for point in points)
    assert {total for _, total, _ in seen} == {18}
    assert isinstance(caught.value, KeyboardInterrupt)


def test_progress_counts_every_replication(scenario: Loaded) -> None:
    """From 1 to all of them, in order, with what was done last."""
    seen: list[tuple[int, int, str]] = []
    run(scenario, processes=1, progress=lambda *what: seen.append(what))
    assert [done for done, _, _ in seen] == list(range(1, 19))
    assert seen[0][2] == "sync, 1 node"
    assert seen[-1][2] == "async, 3 nodes"


def test_an_error_in_a_pool_is_the_users_to_read(
    scenario: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scheme file that fails in another process is reported as it would be in this one."""
    (tmp_path / "mine.py").write_text(
        "from pssim.program import Forward, Scheme\n"
        "class Mine(Scheme):\n"
        "    def worker(self, rank):\n"
        "        for step in rank.steps():\n"
        "            yield Forward()\n"
        "            if rank.world == 6: rank.buckets[99]\n"
    )
    text = SCENARIO.split("[[scheme]]")[0] + '[[scheme]]\nname = "mine.py:Mine"\n'
    (tmp_path / "own.toml").write_text(text)
    monkeypatch.setattr(run_module, "_WORTH_A_POOL_S", 0.0)
    for processes in (1, 2):
        with pytest.raises(Exception, match=r"mine\.py:6: .*IndexError") as caught:
            run(load(tmp_path / "own.toml"), processes=processes)
        assert type(caught.value).__name__ == "SchemeError"


def test_without_jitter_one_replication_is_enough(tmp_path: Path) -> None:
    """All would be the same."""
    (tmp_path / "calm.toml").write_text(SCENARIO.replace("jitter = { independent = 0.05 }", ""))
    points = run(load(tmp_path / "calm.toml"), processes=1, replications=5)
    assert {len(point.records) for point in points} == {1}


def test_the_analytic_engine_gives_numbers_instead_of_records(scenario: Loaded) -> None:
    """A step and its bounds at every point; at one node of one rank nothing but compute and update."""
    points = run(scenario, engine="analytic")
    assert len(points) == 9
    for point in points:
        assert point.engine == "analytic"
        assert point.records == ()
        assert point.analytic is not None
        found = point.analytic
        assert 0 < found["step_bound_low_s"] <= found["step_s"] <= found["step_bound_high_s"]
        assert 0 < found["efficiency"] <= 1
    simulated = run(scenario, processes=1)
    for point, other in zip(points[:3], simulated[:3], strict=True):
        mean = sum(float((r.window_ps / r.steps_measured).mean()) for r in other.records) / 2e12
        assert point.analytic is not None
        assert point.analytic["step_s"] == pytest.approx(mean, rel=0.05)


def test_engines_that_cannot_are_refused_with_the_reason(scenario: Loaded) -> None:
    """An unknown engine, and vector for parameter servers."""
    with pytest.raises(EngineError, match="must be one of auto, events, vector, analytic"):
        run(scenario, engine="warp")
    with pytest.raises(EngineError, match=r"vector.*async.*servers"):
        run(scenario, engine="vector", processes=1)


@pytest.mark.slow
def test_a_plain_script_may_run_on_all_cores(tmp_path: Path) -> None:
    """Spawned processes do not run the user's script again, though it has no ``if __name__`` guard."""
    (tmp_path / "small.toml").write_text(SCENARIO)
    (tmp_path / "script.py").write_text(
        textwrap.dedent(
            """
            print("once")
            import sys
            from pssim.run import run
            from pssim.scenario import load
            sys.modules["pssim.run"]._WORTH_A_POOL_S = 0.0
            points = run(load("small.toml"), processes=2)
            print(len(points))
            """
        )
    )
    ran = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=200,
        env=dict(os.environ),
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["once", "9"]


@pytest.mark.parametrize("error", [BrokenProcessPool, NotImplementedError, PermissionError])
def test_without_other_processes_the_rest_is_run_here(
    error: type[Exception],
    scenario: Loaded,
    assert_same_record: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A killed process, or a system that allows none, costs time and no results."""

    def broken(*_: object) -> None:
        raise error("no processes")

    monkeypatch.setattr(run_module, "_WORTH_A_POOL_S", 0.0)
    monkeypatch.setattr(run_module, "_in_pool", broken)
    assert_same_points(run(scenario, processes=2), run(scenario, processes=1), assert_same_record)
