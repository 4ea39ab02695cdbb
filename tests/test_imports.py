"""What is imported, and from where: the installed package, and nothing heavy before it is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

import pssim

CHECKOUT = Path(__file__).parents[1]

HEAVY = ("matplotlib", "numpy", "pandas", "pydantic", "rich", "scipy", "simpy", "torch")

LOADED = "import json, sys; print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"


def python(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a Python with pssim installed, away from the checkout, whose modules it would take otherwise."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done


def loaded_after(code: str, folder: Path) -> set[str]:
    """The top-level modules in memory after ``code`` has run in a process of its own."""
    return set(json.loads(python("-c", f"{code}\n{LOADED}", folder=folder).stdout.splitlines()[-1]))


def is_editable() -> bool:
    """Whether pssim is installed as a pointer to a checkout."""
    origin = json.loads(distribution("pssim").read_text("direct_url.json") or "{}")
    return bool(origin.get("dir_info", {}).get("editable", False))


def test_the_installed_package_is_tested() -> None:
    """Unless somebody works on an editable checkout, what is tested is what users install."""
    found = Path(pssim.__file__)
    if is_editable() and "PSSIM_CI_INSTALLED" not in os.environ:
        assert found.is_relative_to(CHECKOUT)
    else:
        assert "site-packages" in found.parts, f"the checkout is tested, not the installed package: {found}"


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    """``pssim --help`` answers at once: it imports click, and neither arrays, tables, pictures nor torch."""
    lines = python("-X", "importtime", "-m", "pssim", "--help", folder=tmp_path).stderr.splitlines()
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}
    assert {"click", "pssim"} <= imported
    assert imported.isdisjoint(HEAVY)


@pytest.mark.parametrize("command", ["run", "list", "explain", "schema", "calibrate"])
def test_help_of_a_command_imports_nothing_heavy(command: str, tmp_path: Path) -> None:
    """Each command's own help waits for nothing that only its work needs."""
    code = f"from pssim.cli.main import main; main(['{command}', '--help'])"
    assert loaded_after(code, tmp_path).isdisjoint(set(HEAVY) - {"pydantic"})


def test_importing_pssim_imports_nothing_heavy(tmp_path: Path) -> None:
    """``import pssim`` costs nothing, whatever is used later."""
    assert loaded_after("import pssim", tmp_path).isdisjoint(HEAVY)


def test_loading_a_scenario_needs_no_arrays(tmp_path: Path) -> None:
    """A scenario is checked before anything slow is imported."""
    loaded = loaded_after("import pssim; pssim.load('tianhe2-resnet50')", tmp_path)
    assert loaded.isdisjoint(set(HEAVY) - {"pydantic"})


@pytest.mark.parametrize("engine", ["events", "vector", "analytic"])
def test_simulating_imports_neither_torch_nor_tables(engine: str, tmp_path: Path) -> None:
    """From a scenario to measured points without torch, pandas or matplotlib: processes start fast."""
    code = f"""if True:
        from pssim.run import run
        from pssim.scenario import load
        changes = ["training.nodes=[4]", "training.steps=5"]
        loaded = load("ethernet10g-resnet50", overrides=changes, schemes="sync")
        (point,) = run(loaded, engine="{engine}", replications=1)
        assert point.engine == "{engine}"
    """
    assert loaded_after(code, tmp_path).isdisjoint({"matplotlib", "pandas", "rich", "torch"})


@pytest.mark.parametrize("engine", ["vector", "analytic"])
def test_only_the_reference_engine_has_an_event_queue(engine: str, tmp_path: Path) -> None:
    """What is compared with the events engine does not share its event queue."""
    assert "simpy" not in loaded_after(f"import pssim.engine.{engine}", tmp_path)


def test_a_whole_run_imports_no_torch(tmp_path: Path) -> None:
    """Simulating a scenario, with its tables and pictures, works without torch."""
    code = """if True:
        from pssim.cli.main import main
        arguments = ["run", "ethernet10g-resnet50", "--scheme", "pseudo-sync", "--replications", "1"]
        arguments += ["--set", "training.nodes=[2, 4]", "--set", "training.steps=10", "--out", "out"]
        assert main(arguments) == 0
    """
    loaded = loaded_after(code, tmp_path)
    assert "matplotlib" in loaded
    assert "torch" not in loaded
    assert (tmp_path / "out" / "results.csv").exists()
