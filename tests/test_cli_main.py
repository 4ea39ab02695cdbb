"""The command line as a whole: help, version, exit codes, and how it ends when something goes wrong."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import click
import pytest

import pssim
from pssim.cli import main as cli
from pssim.errors import CheckFailed, PssimError, ScenarioError


@pytest.fixture
def command(tmp_path):
    """Runs ``python -m pssim`` in an empty folder."""

    def run(*arguments, **environment):
        return subprocess.run(
            [sys.executable, "-m", "pssim", *arguments],
            cwd=tmp_path,
            env={**os.environ, "TMPDIR": str(tmp_path), **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return run


def ended_by(monkeypatch, error):
    """The exit code of a command that raises this."""

    def fail():
        raise error

    monkeypatch.setattr(cli.pssim, "get_command", lambda ctx, name: click.Command("list", callback=fail))
    return cli.main(["list"])


# ------------------------------------------------------------------------------- help and version


def test_help_names_every_command(command):
    """One line each."""
    done = command("--help")
    assert done.returncode == 0
    assert re.findall(r"^  (\w+) ", done.stdout.split("Commands:")[1], re.MULTILINE) == [
        "run",
        "list",
        "explain",
        "schema",
        "calibrate",
    ]


def test_every_command_is_there_and_has_the_name_it_is_listed_under():
    """The table of lazy imports agrees with the modules."""
    context = click.Context(cli.pssim)
    for name in cli.pssim.list_commands(context):
        assert cli.pssim.get_command(context, name).name == name


def test_version(command):
    """The version of the installed package, which is also pssim.__version__."""
    assert command("--version").stdout == f"pssim {version('pssim')}\n"
    assert pssim.__version__ == version("pssim")


def test_help_imports_click_and_little_else(command):
    """Nothing that costs time: the heavy packages are imported by the commands that use them."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "pssim", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    imported = {
        line.rsplit("|", 1)[1].strip().split(".")[0] for line in done.stderr.splitlines() if "|" in line
    }
    assert "click" in imported
    assert not imported & {"numpy", "pandas", "scipy", "matplotlib", "simpy", "pydantic", "rich", "torch"}


def test_help_is_fast(tmp_path):
    """Under 0.2 s, interpreter included: the best of five, since others use the machine too."""
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "pssim", "--help"], cwd=tmp_path, capture_output=True, check=True
        )
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.2


# ------------------------------------------------------------------------------------- exit codes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lst"], "Error: No such command 'lst'. Did you mean 'list'?"),
        (["zzz"], "Error: No such command 'zzz'. There are run, list, explain, schema, calibrate."),
        (["--verson"], "Error: No such option '--verson'"),
        (["list", "--al"], "Error: No such option '--al'"),
        (["schema", "surplus"], "Error: Got unexpected extra argument (surplus)"),
        (["list", "nothing.toml"], "Error: no scenario 'nothing.toml': there is no such file"),
        (["list", "nothing.py"], "Error: nothing.py: cannot be read: No such file or directory"),
    ],
)
def test_bad_input_ends_with_2(command, arguments, message):
    """A message on standard error, nothing on standard output, no traceback."""
    done = command(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_faults_of_a_scenario_are_lines_an_editor_can_jump_to(command, tmp_path):
    """They begin with file:line, all of them."""
    (tmp_path / "a.toml").write_text("question = 3\n[cluster]\nlink = 4\n")
    done = command("list", "a.toml")
    assert done.returncode == 2
    assert done.stderr.startswith("a.toml:1: ")
    assert all(re.match(r"a\.toml:\d+: [a-z.]+: ", line) for line in done.stderr.splitlines())


def test_a_defect_ends_with_3_and_one_line(monkeypatch, capsys, tmp_path):
    """The traceback is in a log file that the line names."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert ended_by(monkeypatch, ZeroDivisionError("a\nb")) == 3
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(
        "pssim: internal error, please report it: ZeroDivisionError: a b; the traceback is in "
    )
    log = Path(line.rsplit(" ", 1)[1])
    assert "in fail" in log.read_text(encoding="utf-8")


def test_a_defect_without_a_place_for_the_log(monkeypatch, capsys):
    """Still one line and code 3."""
    monkeypatch.setattr("tempfile.tempdir", "/nonexistent")
    assert ended_by(monkeypatch, RecursionError("deep")) == 3
    assert "could not be written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ScenarioError("a.toml:1: x: must be y"), 2, "a.toml:1: x: must be y\n"),
        (PssimError("no"), 2, "Error: no\n"),
        (CheckFailed("off by 3 %"), 1, "Error: off by 3 %\n"),
        (KeyboardInterrupt(), 130, None),
        (SystemExit(130), 130, ""),
        (SystemExit(), 0, ""),
        (SystemExit("stopped"), 1, "stopped\n"),
        (click.ClickException("no"), 2, "Error: no\n"),
    ],
)
def test_how_errors_end(monkeypatch, capsys, error, code, message):
    """Each kind of error has its code, and shows its message once."""
    assert ended_by(monkeypatch, error) == code
    shown = capsys.readouterr().err
    assert message is None or shown == message


@pytest.mark.parametrize("argument", ["schema", "--help"])
def test_a_reader_that_goes_away_is_no_error(tmp_path, argument):
    """As in ``pssim schema | head -1``."""
    command = [sys.executable, "-m", "pssim", argument]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, cwd=tmp_path)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(60) == 0


def test_a_terminal_without_the_characters_is_no_error(command):
    """What it cannot show is escaped."""
    done = command("schema", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "SchemeEntry" in done.stdout


# -------------------------------------------------------------------------------------- in Python


def test_the_public_names_are_there_and_lazy(tmp_path):
    """Every name of __all__ can be had, and importing pssim alone imports none of the machinery."""
    assert list(pssim.__all__) == sorted(pssim.__all__)
    assert set(dir(pssim)) == set(pssim.__all__)
    for name in pssim.__all__:
        assert getattr(pssim, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'lod'"):
        pssim.lod  # noqa: B018
    program = (
        "import sys, pssim; print([name for name in sys.modules if name.startswith(('pssim', 'pydantic'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "['pssim']\n"


def test_run_is_the_function_whoever_imported_the_module():
    """There is also a module of that name."""
    module = importlib.import_module("pssim.run")
    assert callable(pssim.run)
    assert pssim.run is not module
