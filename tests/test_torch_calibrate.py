"""``pssim calibrate model``, on a model small enough to measure in a moment."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from torch import nn

import pssim.torch.profiler
from pssim.cli.calibrate import calibrate
from pssim.errors import InputError, MissingExtraError, OutputError, ProfileError
from pssim.torch.models import MODELS, TrainableModel
from pssim.workload import load_profile


@pytest.fixture(autouse=True)
def model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tiny = TrainableModel(lambda: nn.Sequential(nn.Linear(6, 3)), "six numbers", (6,), 3)
    monkeypatch.setitem(MODELS, "tiny", tiny)
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(calibrate, ["model", *arguments])


def test_it_writes_a_profile_and_says_what_is_in_it(tmp_path: Path) -> None:
    result = run("tiny", "--batch", "4,1", "--threads", "1", "--repeats", "3")
    assert result.exit_code == 0, result.output
    made = load_profile(tmp_path / "tiny.json")
    assert made.batches == (1, 4)
    assert made.provenance["command"] == "pssim calibrate model tiny --batch 1,4 --threads 1 --repeats 3"
    assert "tiny: 21 parameters, 2 layers" in result.stdout
    assert result.stdout.endswith("written to tiny.json\n")
    assert len(result.stdout.splitlines()) < 20
    assert "batch 4: repeat 3 of 3" in result.stderr


@pytest.mark.parametrize(
    "batches", ["8", "2,8", "1", "1,1", "one,two", "", "0,1", "-1,1", "1,8.5", "1;8", "1,9999999999999999999"]
)
def test_batches_must_be_one_and_more(batches: str) -> None:
    result = run("tiny", "--batch", batches)
    assert result.exit_code == 2
    assert f"must be 1 and at least one larger number, such as 1,8,32; it is '{batches}'" in result.output


def test_a_model_it_does_not_know_comes_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"it is 'resnet5'; did you mean 'resnet50'\?"):
        raise run("resnet5").exception  # type: ignore[misc]


def test_a_file_that_is_there_is_not_replaced_unless_asked_to(tmp_path: Path) -> None:
    (tmp_path / "tiny.json").write_text("precious")
    with pytest.raises(OutputError, match=r"tiny.json is there already: give --force"):
        raise run("tiny").exception  # type: ignore[misc]
    assert (tmp_path / "tiny.json").read_text() == "precious"
    assert run("tiny", "--batch", "1,2", "--repeats", "3", "--force").exit_code == 0
    assert load_profile(tmp_path / "tiny.json").name == "tiny"


def test_more_threads_than_cores_are_refused() -> None:
    """They would only measure how threads wait for each other."""
    with pytest.raises(InputError, match=r"--threads must be at most .* it is 99999"):
        raise run("tiny", "--threads", "99999").exception  # type: ignore[misc]


def test_a_batch_that_does_not_fit_in_memory_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A petabyte for one sample."""

    def build() -> nn.Module:
        return nn.Sequential(nn.AdaptiveAvgPool1d(2), nn.Linear(2, 3))

    vast = TrainableModel(build, "a long line", (2**48,), 3)
    monkeypatch.setitem(MODELS, "vast", vast)
    with pytest.raises(ProfileError, match=r"model 'vast' cannot be run at batch 1: .*memory"):
        raise run("vast").exception  # type: ignore[misc]
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_is_not_there_is_found_out_before_measuring() -> None:
    with pytest.raises(OutputError, match="there is no directory nowhere"):
        raise run("tiny", "--out", "nowhere/tiny.json").exception  # type: ignore[misc]


def test_interrupting_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pssim.torch.profiler, "_measure_update", interrupted)
    result = run("tiny", "--batch", "1,2", "--repeats", "3")
    assert result.exit_code != 0
    assert "tiny: interrupted, nothing was written" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_without_torch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("pssim.torch")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'pssim\[torch\]'"):
        raise run("tiny").exception  # type: ignore[misc]
