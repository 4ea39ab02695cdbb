"""The published JSON schema says what pssim accepts."""

from __future__ import annotations

import json

import pytest

from pssim.catalogue import find_scenario, scenario_names
from pssim.registry import registered
from pssim.scenario import json_schema, schema_text


def test_the_committed_schema_is_the_current_one():
    """Regenerate it with: pssim schema > scenarios/schema.json"""
    path = find_scenario("tianhe2-resnet50").with_name("schema.json")
    assert path.read_text(encoding="utf-8") == schema_text()


@pytest.mark.parametrize("name", scenario_names())
def test_the_bundled_scenarios_point_to_it(name):
    """Editors find it by the first line."""
    assert find_scenario(name).read_text(encoding="utf-8").startswith("#:schema schema.json\n")


def entries():
    return json_schema()["$defs"]["SchemeEntry"]["anyOf"]


def test_the_options_of_every_scheme_are_in_it():
    """With the defaults that the name stands for, not those of the class."""
    by_name = {entry["properties"]["name"].get("const"): entry for entry in entries()}
    assert set(registered()) <= set(by_name)
    assert by_name["sync"]["properties"]["delay"]["default"] == 0
    delay = by_name["pseudo-sync"]["properties"]["delay"]
    assert delay.items() >= {"default": 1, "minimum": 0, "type": "integer"}.items()
    assert by_name["ssp"]["properties"]["bound"]["default"] == 3
    assert by_name["sync"]["additionalProperties"] is False


@pytest.mark.parametrize("entry", entries()[:-1], ids=lambda entry: entry["properties"]["name"]["const"])
def test_every_option_says_what_it_is(entry):
    """For editors, and for ``pssim explain``."""
    assert all(option.get("description") for name, option in entry["properties"].items() if name != "name")


def test_schemes_of_others_may_have_any_options():
    """The last choice is for files and other packages, and excludes the bundled names."""
    other = entries()[-1]
    assert "additionalProperties" not in other
    assert "sync" in other["properties"]["name"]["not"]["enum"]


def test_quantities_are_text_with_examples():
    """Numbers without a unit are faults for the editor too."""
    link = json_schema()["$defs"]["Link"]["properties"]
    assert link["bandwidth"]["type"] == "string"
    assert "25 Gbit/s" in link["bandwidth"]["examples"]
    assert json_schema()["additionalProperties"] is False
    assert json.loads(schema_text()) == json_schema()
