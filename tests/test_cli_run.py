"""`pssim run`: what is printed, what is written, what is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from importlib import import_module

import pytest

from pssim.cli.main import main
from pssim.run import Interrupted

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


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(SCENARIO)


@pytest.fixture
def never_simulates(monkeypatch):
    """Fails the test if anything is simulated."""

    def fail(*_args, **_settings):
        pytest.fail("simulated, although it was known before that this is pointless")

    monkeypatch.setattr("pssim.api.run_points", fail)


def pssim(*args: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """The command in a process of its own."""
    command, env = [sys.executable, "-m", "pssim", *args], {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, check=False, env=env)


def test_one_table_one_line_on_what_binds_and_the_directory(capsys, tmp_path):
    """On stdout; stderr stays silent when it does not take long."""
    assert main(["run", "small.toml", "--no-plots"]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].split()[:4] == ["scheme", "nodes", "cores", "engine"]
    assert [line.split()[0] for line in lines[3:5]] == ["sync", "sync"]
    assert sum(line.startswith("What binds at 4 nodes") for line in lines) == 1
    (directory,) = (tmp_path / "runs").iterdir()
    assert lines[-1] == f"written to runs/{directory.name}"
    assert err == ""


def test_piped_output_is_plain_and_fits(capsys):
    """No escape codes, and no line of the table above 110 characters."""
    main(["run", "small.toml", "--no-plots"])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert max(map(len, out.split("What binds")[0].splitlines())) <= 140


def test_out_names_the_directory(tmp_path):
    """With everything in it."""
    assert main(["run", "small.toml", "--out", "deep/here"]) == 0
    assert {path.suffix for path in (tmp_path / "deep" / "here").iterdir()} == {
        ".csv",
        ".json",
        ".toml",
        ".txt",
        ".png",
        ".svg",
    }


def test_json_is_all_there_is_on_stdout(capsys, tmp_path):
    """One object; and no directory unless one is asked for."""
    assert main(["run", "small.toml", "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    assert list(whole) == ["scenario", "manifest", "rows"]
    assert len(whole["rows"]) == 4
    assert not (tmp_path / "runs").exists()
    assert main(["run", "small.toml", "--json", "--out", "here", "--no-plots"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == whole["rows"]
    assert (tmp_path / "here" / "results.csv").exists()


def test_json_never_holds_nan(capsys):
    """Closed forms leave cells empty: null."""
    assert main(["run", "small.toml", "--json", "--engine", "analytic"]) == 0

    def refuse(constant):
        pytest.fail(f"{constant} is not JSON")

    whole = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert whole["rows"][0]["step_p99_s"] is None


def test_options_reach_the_run(capsys):
    """Overrides, schemes, replications and seed, all at once."""
    settings = ["--set", "training.nodes=[2]", "--replications", "2", "--seed", "7"]
    assert main(["run", "small.toml", "--json", "--scheme", "pseudo-sync[delay=2]", *settings]) == 0
    whole = json.loads(capsys.readouterr().out)
    (row,) = whole["rows"]
    assert (row["scheme"], row["nodes"], row["replications"]) == ("pseudo-sync[delay=2]", 2, 2)
    assert whole["manifest"]["seed"] == 7


@pytest.mark.parametrize("engine", ["events", "vector", "analytic"])
def test_an_engine_can_be_forced(capsys, engine):
    """And is named in every row."""
    assert main(["run", "small.toml", "--json", "--engine", engine, "--set", "training.nodes=[2]"]) == 0
    assert {row["engine"] for row in json.loads(capsys.readouterr().out)["rows"]} == {engine}


@pytest.mark.usefixtures("never_simulates")
def test_explain_shows_every_setting_and_runs_nothing(capsys, tmp_path):
    """As written, in SI, and with its place."""
    assert main(["run", "small.toml", "--explain", "--set", "training.steps=50"]) == 0
    words = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["cluster.link.latency", "10", "us", "1e-05", "small.toml:6"] in words
    assert ["training.steps", "50", "--set"] in words
    assert not (tmp_path / "runs").exists()


@pytest.mark.usefixtures("never_simulates")
def test_explain_as_json(capsys):
    """The same for programs."""
    assert main(["run", "small.toml", "--explain", "--json"]) == 0
    settings = {row["key"]: row for row in json.loads(capsys.readouterr().out)["settings"]}
    assert settings["cluster.link.latency"]["value"] == 1e-05


@pytest.mark.usefixtures("never_simulates")
@pytest.mark.parametrize(
    "args",
    [
        ["small.toml", "--out", "taken"],
        ["small.toml", "--out", "small.toml"],
        ["small.toml", "--out", "small.toml/below"],
        ["small.toml", "--out", "."],
        ["small.toml", "--engine", "quick"],
        ["small.toml", "--replications", "0"],
        ["small.toml", "--seed", "-1"],
        ["small.toml", "--seed", "many"],
        ["small.toml", "--set", "cluster.link.latency=-1 us"],
        ["small.toml", "--scheme", "sink"],
        ["small.toml", "--frobnicate"],
        ["smal.toml"],
        [],
    ],
    ids=" ".join,
)
def test_what_cannot_be_run_is_refused_before_it_runs(capsys, tmp_path, args):
    """With code 2, something on stderr, nothing on stdout, and nothing written."""
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "precious").write_text("")
    before = sorted(tmp_path.rglob("*"))
    assert main(["run", *args]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err
    assert "Traceback" not in err
    assert sorted(tmp_path.rglob("*")) == before


def test_two_runs_give_the_same_bytes(tmp_path):
    """All but the manifest, whatever the order of hashes and the number of processes."""
    for number in ("1", "2"):
        done = pssim("run", "small.toml", "--out", number, PYTHONHASHSEED=number)
        assert done.returncode == 0, done.stderr
    one, two = ({path.name: path.read_bytes() for path in (tmp_path / n).iterdir()} for n in ("1", "2"))
    assert {name for name in one if one[name] != two[name]} == {"manifest.json"}
    assert one.keys() == two.keys()


def test_every_replication_is_run_by_several_processes_too(capsys, monkeypatch):
    """None is lost on the way, and the numbers are those of a single process."""
    args = ["run", "small.toml", "--json", "--replications", "6"]
    assert main(args) == 0
    alone = json.loads(capsys.readouterr().out)["rows"]
    monkeypatch.setattr(import_module("pssim.run"), "_WORTH_A_POOL_S", -1.0)
    assert main(args) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["replications"] for row in rows] == [6, 6, 6, 6]
    assert rows == alone


# --------------------------------------------------------------------------------------- interruption


def interrupt_after(monkeypatch, count):
    """Ctrl-C as soon as so many replications are done."""

    def stop(self, done, total, text):
        if done == count:
            raise KeyboardInterrupt

    monkeypatch.setattr("pssim.cli.progress.ProgressLine.__call__", stop)


def test_ctrl_c_keeps_what_is_finished(capsys, monkeypatch, tmp_path):
    """The rows that are there are printed and written, the manifest says so, and the exit code is 130."""
    interrupt_after(monkeypatch, 3)
    assert main(["run", "small.toml", "--out", "here"]) == 130
    out, err = capsys.readouterr()
    assert "interrupted" in err
    assert "written to here" in out
    assert json.loads((tmp_path / "here" / "manifest.json").read_text())["interrupted"] is True
    assert len((tmp_path / "here" / "results.csv").read_text().splitlines()) == 2


def test_ctrl_c_before_anything_is_finished_writes_nothing(capsys, monkeypatch, tmp_path):
    """An empty run directory would help nobody."""

    def stop(*_args, **_settings):
        raise Interrupted([])

    monkeypatch.setattr("pssim.api.run_points", stop)
    assert main(["run", "small.toml", "--out", "here"]) == 130
    assert "nothing was written" in capsys.readouterr().err
    assert not (tmp_path / "here").exists()


def test_ctrl_c_at_the_keyboard(tmp_path):
    """A real signal to all processes, as a terminal sends it, while several of them work."""
    args = ["--replications", "100000", "--no-plots", "--out", "here"]
    with subprocess.Popen(
        [sys.executable, "-m", "pssim", "run", "small.toml", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stderr.readline().startswith(b"pssim: ")  # the first progress, after two seconds
        time.sleep(0.5)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert b"Traceback" not in err
    assert b"written to here" in out
    assert json.loads((tmp_path / "here" / "manifest.json").read_text())["interrupted"] is True
