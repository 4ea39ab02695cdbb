"""The catalogue finds bundled files by name, others by path, and says what is near what it does not find."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pssim
from pssim import catalogue
from pssim.catalogue import (
    device_names,
    find_device,
    find_profile,
    find_scenario,
    profile_names,
    scenario_names,
)
from pssim.errors import CatalogueError


def test_bundled_names():
    """Sorted, without suffix, and only what is of that kind: the schema is no scenario."""
    assert {
        "ethernet10g-resnet50",
        "parameter-server-async",
        "tianhe2-per-core-ranks",
        "tianhe2-resnet50",
    } <= set(scenario_names())
    assert scenario_names() == sorted(scenario_names())
    assert "resnet50" in profile_names()
    assert "tianhe2-node" in device_names()


def test_names_and_paths(tmp_path):
    """A bundled name wins; a path is relative to the folder given."""
    assert find_scenario("tianhe2-resnet50", tmp_path).name == "tianhe2-resnet50.toml"
    (tmp_path / "mine.json").touch()
    assert find_profile("mine.json", tmp_path) == tmp_path / "mine.json"
    assert find_profile("./mine.json", tmp_path) == tmp_path / "mine.json"
    assert find_device(str(find_device("tianhe2-node"))).name == "tianhe2-node.toml"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tianhe2-resnet05", "did you mean 'tianhe2-resnet50'?"),
        ("tianhe2", "did you mean 'tianhe2-per-core-ranks' or 'tianhe2-resnet50'?"),
        ("mine", "did you mean 'mine.toml'?"),
        ("mien.toml", "there is no such file; did you mean 'mine.toml'?"),
        ("no/such/folder.toml", "there is no such file"),
        ("folder/", "that is a folder"),
        ("", "it must be the path of a .toml file or one of"),
        ("zzz", "tianhe2-resnet50"),
    ],
)
def test_what_is_not_there(tmp_path, name, message):
    """The message says what there is, and what may have been meant."""
    (tmp_path / "mine.toml").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(CatalogueError) as raised:
        find_scenario(name, tmp_path)
    assert str(raised.value).startswith(f"no scenario {name!r}: ")
    assert message in str(raised.value)


def test_files_that_cannot_be_looked_at(tmp_path):
    """Names no file system takes end in the same error."""
    for name in ("x" * 5000, "a\0b", "folder/" * 2000):
        with pytest.raises(CatalogueError):
            find_scenario(name, tmp_path)


def test_an_installed_package_finds_its_data_inside(tmp_path):
    """Laid out as a wheel lays it out, away from any checkout."""
    root = Path(pssim.__file__).parent.parent
    package = tmp_path / "pssim"
    package.mkdir()
    for name in ("__init__.py", "catalogue.py", "errors.py"):
        shutil.copy(root / "pssim" / name, package)
    shutil.copytree(catalogue._folder(catalogue._SCENARIO), package / "_data" / "scenarios")
    program = "from pssim.catalogue import *; print(find_scenario('tianhe2-resnet50'), scenario_names())"
    command = [sys.executable, "-c", program]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(str(package / "_data" / "scenarios" / "tianhe2-resnet50.toml"))
    assert str(scenario_names()) in done.stdout
