"""`pssim explain`: what a word in a table or a scenario means."""

from __future__ import annotations

import json

import pytest

from pssim.cli.main import main
from pssim.results import COLUMNS


@pytest.mark.parametrize("column", COLUMNS)
def test_every_column_is_explained(capsys, column):
    """Its definition and formula; and its unit, where it has one."""
    assert main(["explain", column]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert COLUMNS[column].definition in out
    assert COLUMNS[column].formula in out
    if COLUMNS[column].unit not in ("", "1"):
        assert f"[{COLUMNS[column].unit}]" in out


@pytest.mark.parametrize("key", ["cluster.link.latency", "latency", "cluster.link", "scheme.delay", "delay"])
def test_settings_are_explained_too(capsys, key):
    """By their whole key, or its last part; options of schemes among them."""
    assert main(["explain", key]) == 0
    assert key in capsys.readouterr().out


def test_a_word_that_means_two_things_is_explained_twice(capsys):
    """`nodes` is a column, and a setting of the training."""
    main(["explain", "nodes"])
    out = capsys.readouterr().out
    assert "Nodes in use" in out
    assert "training.nodes" in out


def test_a_typo_is_told_what_it_resembles(capsys):
    """With exit code 2, and nothing on stdout."""
    assert main(["explain", "eficiency"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "did you mean 'efficiency'" in err


def test_without_a_key_everything_is_listed(capsys):
    """A line each."""
    assert main(["explain"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {name} " in out for name in (*COLUMNS, "cluster.link.bandwidth", "scheme.warmup_steps"))
    assert max(map(len, out.splitlines())) <= 110


def test_explanations_as_json(capsys):
    """For programs."""
    assert main(["explain", "step_s", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert entry["unit"] == "s"
