"""``pssim list`` and ``pssim schema``: what there is, what is in a scenario, what is in a scheme file."""

from __future__ import annotations

import json

import pytest

from pssim.catalogue import device_names, profile_names, scenario_names
from pssim.cli.main import main
from pssim.registry import registered
from pssim.scenario import ENGINES, json_schema


@pytest.fixture
def output(capsys, tmp_path, monkeypatch):
    """Runs a command in an empty folder and gives what it printed, with spaces and line ends as one."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, code=0):
        assert main(arguments) == code
        shown = capsys.readouterr()
        return " ".join((shown.err if code else shown.out).split())

    return run


def test_everything_is_listed(output):
    """Scenarios with their question, schemes with options and defaults, profiles, devices, engines."""
    shown = output("list")
    for name in [*scenario_names(), *registered(), *profile_names(), *device_names(), *ENGINES]:
        assert f" {name} " in shown
    assert "tianhe2-resnet50 How far does ResNet-50 scale on Tianhe-2" in shown
    assert "Options: delay=0, overlap=false, warmup_steps=0." in shown
    assert "Options: bound=none, servers=1, placement=colocated." in shown
    assert "25,557,032 parameters" in shown
    assert "338 GFLOP/s sustained (assumed)" in shown


def test_a_scenario_is_listed(output):
    """Its sizes, and its schemes with how long they run."""
    shown = output("list", "tianhe2-resnet50")
    assert "1 node 1 rank, 24 cores 2 nodes 2 ranks, 48 cores" in shown
    assert "512 nodes 512 ranks, 12,288 cores" in shown
    assert "async 24 steps, 4 replications" in shown


def test_a_scheme_file_is_listed(output, tmp_path):
    """The schemes in it, not the helpers; the name is what --scheme takes."""
    (tmp_path / "my.py").write_text(
        "import pssim\n\nclass Helper:\n    pass\n\nclass Mine(pssim.Scheme):\n"
        "    '''Waits for nobody,\n    and says so.\n\n    More.\n    '''\n    k: int = 3\n"
    )
    assert (
        output("list", "my.py") == "Schemes in my.py: my.py:Mine Waits for nobody, and says so. Options: k=3."
    )


def test_options_of_a_scheme_file_are_described(output, tmp_path):
    """As the file's author describes them: ``pssim explain`` knows only the bundled schemes."""
    (tmp_path / "my.py").write_text(
        "import pssim\nfrom pydantic import Field\n\nclass Mine(pssim.Scheme):\n"
        "    k: int = Field(3, description='how many')\n    j: bool = True\n"
    )
    assert "Options: k=3 (how many), j=true." in output("list", "my.py")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "import pssim\n1 / 0\nclass Mine(pssim.Scheme):\n    pass\n",
            "my.py:2: ZeroDivisionError: division by zero",
        ),
        ("def broken(:\n", "my.py:1: SyntaxError: "),
        ("a = '\0'\n", "my.py:1: "),
    ],
)
def test_a_broken_scheme_file_is_bad_input(output, tmp_path, text, message):
    """With the line in that file."""
    (tmp_path / "my.py").write_text(text)
    assert message in output("list", "my.py", code=2)


def test_a_file_without_schemes(output, tmp_path):
    """An empty section says so."""
    (tmp_path / "my.py").write_text("x = 1\n")
    assert output("list", "my.py") == "Schemes in my.py: (none)"


def test_the_schema_is_json(output, capsys):
    """The published schema, as it is."""
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json_schema()
