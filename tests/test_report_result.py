"""Result: what `pssim.run` gives in Python."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from types import SimpleNamespace

import pandas as pd
import pytest

import pssim
from pssim.api import RunInterrupted
from pssim.errors import OutputError
from pssim.report import Result
from pssim.results import COLUMNS

SCENARIO = """
question = "Does it work?"
[workload]
profile = "resnet50"
[cluster]
link = { latency = "10 us", bandwidth = "1 GB/s" }
jitter = { independent = 0.05 }
[training]
batch_per_rank = 8
nodes = [1, 4]
steps = 30
replications = 3
[[scheme]]
name = "sync"
[[scheme]]
name = "pseudo-sync"
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("scenario") / "small.toml"
    path.write_text(SCENARIO)
    return path


@pytest.fixture(scope="module")
def result(path):
    return pssim.run(pssim.load(path), command=["a test"])


def test_there_is_a_row_for_each_scheme_and_size(result):
    """In the scenario's order, with all replications."""
    found = [(row["scheme"], row["nodes"], row["replications"]) for row in result.rows]
    assert found == [("sync", 1, 3), ("sync", 4, 3), ("pseudo-sync", 1, 3), ("pseudo-sync", 4, 3)]


def test_the_table_has_the_rows(result):
    """As a DataFrame with the columns of the glossary."""
    assert list(result.table.columns) == list(COLUMNS)
    assert result.table["step_s"].tolist() == [row["step_s"] for row in result.rows]


def test_a_scenario_may_be_given_by_its_path(path, result):
    """Or by its name; and the same scenario gives the same numbers."""
    assert pssim.run(path).rows == pssim.run(str(path)).rows == result.rows


def test_one_rank_alone_is_fully_efficient(result):
    """Nobody to talk to."""
    assert [row["efficiency"] for row in result.rows if row["nodes"] == 1] == [1.0, 1.0]


def test_the_manifest_says_where_the_numbers_come_from(result):
    """Versions, seed, command, and the engine of every point."""
    manifest = result.manifest
    assert manifest["scenario"] == "small"
    assert manifest["seed"] == 1
    assert manifest["command"] == ["a test"]
    assert manifest["interrupted"] is False
    assert {"python", "pssim", "numpy", "scipy", "simpy"} <= set(manifest["versions"])
    assert [entry["engine"] for entry in manifest["engines"]] == ["vector"] * 4


def test_the_json_is_one_object_of_three(result):
    """And reads back to the same rows."""
    whole = json.loads(result.as_json())
    assert list(whole) == ["scenario", "manifest", "rows"]
    assert whole["rows"] == result.rows
    assert whole["scenario"]["cluster"]["link"]["latency_s"] == 1e-05


def test_the_run_directory_has_everything(result, tmp_path):
    """Tables, the resolved scenario, the manifest, the report, and both plots in both formats."""
    written = result.write(tmp_path / "run")
    assert sorted(path.name for path in written.iterdir()) == [
        "breakdown.png", "breakdown.svg", "efficiency.png", "efficiency.svg", "manifest.json", "report.txt",
        "results.csv", "scenario.resolved.json", "scenario.resolved.toml",
    ]
    assert pd.read_csv(written / "results.csv")["step_s"].tolist() == result.table["step_s"].tolist()
    assert json.loads((written / "manifest.json").read_text()) == result.manifest


def test_the_resolved_scenario_can_be_run_again(result, tmp_path):
    """And gives the same numbers."""
    written = result.write(tmp_path / "run", plots=False)
    assert pssim.run(written / "scenario.resolved.toml").rows == result.rows


def test_writing_twice_is_refused(result, tmp_path):
    """Results are never overwritten."""
    result.write(tmp_path / "run", plots=False)
    with pytest.raises(OutputError, match="has files in it"):
        result.write(tmp_path / "run", plots=False)


def test_the_report_says_it_all(result):
    """Question, table, what binds, notes."""
    text = result.text()
    assert text.startswith("Does it work?\n")
    assert "What binds at 4 nodes" in text
    assert all(f"note: {note}" in text for note in result.notes)


def test_plots_are_figures(result):
    """To be shown in a notebook or changed before they are saved."""
    data = io.BytesIO()
    result.plot_efficiency().savefig(data)
    result.plot_breakdown().savefig(data)
    assert data.getvalue()


def test_an_interruption_keeps_what_is_finished(path):
    """As the result of the exception; a Ctrl-C remains a KeyboardInterrupt for everybody else."""
    def stop(done: int, total: int, text: str) -> None:
        if done == 4:  # sync on one node, and a replication of sync on four
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        pssim.run(path, progress=stop)
    assert isinstance(caught.value, RunInterrupted)
    result = caught.value.result
    assert result.interrupted
    assert result.warnings[-1].startswith("interrupted")
    assert [(row["nodes"], row["replications"]) for row in result.rows] == [(1, 3), (4, 1)]


def test_run_stays_a_function():
    """Although there is a module of that name, imported by now."""
    assert callable(pssim.run)


@pytest.mark.parametrize("by", ["file", "stdin"])
def test_a_plain_script_can_run_a_scenario_on_all_cores(path, tmp_path, by):
    """Without a guard around its main part, as people write them; also one that comes through a pipe."""
    script = f"""
import importlib, pssim
importlib.import_module("pssim.run")._WORTH_A_POOL_S = -1.0
print(len(pssim.run({str(path)!r}).rows))
"""
    (tmp_path / "script.py").write_text(script)
    command = [sys.executable, str(tmp_path / "script.py") if by == "file" else "-"]
    done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("4\n", "")


def test_notes_are_kept_once_and_warnings_name_the_rows(path):
    """A point that was too short or extrapolated is named by scheme and size."""
    def point(nodes):
        return SimpleNamespace(
            scheme_label="sync", nodes=nodes, ranks=nodes, cores=nodes, samples_per_step=1, engine="analytic",
            records=(), analytic={"step_s": 1.0, "steady": 0.0}, extrapolated=nodes == 1,
            notes=("said once",),
        )

    result = Result.from_points(pssim.load(path), iter([point(1), point(2)]), {})
    assert result.notes == ("said once",)
    unsteady, extrapolated = result.warnings
    assert "sync at 1, 2 nodes" in unsteady
    assert extrapolated.endswith("sync at 1 node")
    assert result.manifest["warnings"] == list(result.warnings)
