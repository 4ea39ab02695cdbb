"""The locator: every key of a TOML document is found on the line where it was written."""

from __future__ import annotations

import tomllib

import pytest

from pssim.catalogue import find_scenario, scenario_names
from pssim.scenario.locate import key_lines


def test_tables_and_plain_keys():
    """A key is on its own line, a table on the line of its header."""
    assert key_lines("# comment\na = 1\n\n[t]  # b = 2\nc = 3\n") == {("a",): 2, ("t",): 4, ("t", "c"): 5}


def test_dotted_keys_and_headers():
    """Each part of a dotted key is on that line, unless it was written before."""
    text = 'a.b.c = 1\na.d = 2\n[x . "y.z"]\nk = 1\n[x]\n'
    assert key_lines(text) == {
        ("a",): 1,
        ("a", "b"): 1,
        ("a", "b", "c"): 1,
        ("a", "d"): 2,
        ("x",): 5,
        ("x", "y.z"): 3,
        ("x", "y.z", "k"): 4,
    }


def test_inline_tables_and_arrays_over_several_lines():
    """Elements are counted from 0, and each is on its own line."""
    text = 'link = { latency = "1 us", inner = { x = [1,\n  2, # ]\n  {y = 3}] } }\nafter = "]"\n'
    lines = key_lines(text)
    assert lines[("link", "latency")] == 1
    assert lines[("link", "inner", "x", 0)] == 1
    assert lines[("link", "inner", "x", 1)] == 2
    assert lines[("link", "inner", "x", 2, "y")] == 3
    assert lines[("after",)] == 4


def test_arrays_of_tables():
    """Each [[header]] begins the next element; tables below it belong to the latest."""
    text = "[[s]]\na = 1\n[s.t]\nb = 2\n[[s]]\n[[s.u]]\nc = 3\n[[s.u]]\nc = 4\n"
    lines = key_lines(text)
    assert lines[("s", 0, "t", "b")] == 4
    assert lines[("s", 1)] == 5
    assert lines[("s", 1, "u", 0, "c")] == 7
    assert lines[("s", 1, "u", 1, "c")] == 9


@pytest.mark.parametrize(
    "string",
    [
        '"""\n[no]\nkey = 1\n"""',
        "'''\n# no\n'''",
        '"""a\\"""\n"""',
        '"""two more""\n"""""',
        "'''it''s\n'''''",
    ],
)
def test_strings_over_several_lines_hide_what_looks_like_keys(string):
    """Neither headers nor comments nor quotes inside a string count, and lines after it are right."""
    text = f"a = {string}\nb = 2\n"
    assert list(tomllib.loads(text)) == ["a", "b"]
    assert key_lines(text) == {("a",): 1, ("b",): 1 + text[: text.index("b = 2")].count("\n")}


def test_quoted_and_escaped_keys_windows_lines_and_dates():
    """Keys are unescaped as TOML does; a carriage return is part of the line end."""
    text = "\"q\\u0041\" = 1979-05-27 07:32:00\r\n'b c' = -inf\r\nd = true"
    assert key_lines(text) == {("qA",): 1, ("b c",): 2, ("d",): 3}


@pytest.mark.parametrize("name", scenario_names())
def test_every_key_of_the_bundled_scenarios_is_on_its_line(name):
    """The line the locator gives contains the key."""
    text = find_scenario(name).read_text(encoding="utf-8")
    rows = text.splitlines()
    named = {path: line for path, line in key_lines(text).items() if isinstance(path[-1], str)}
    assert len(named) > 15
    assert all(path[-1] in rows[line - 1] for path, line in named.items())
