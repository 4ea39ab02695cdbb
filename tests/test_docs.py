"""The pages of the documentation say what is true, and link to what is there."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from pssim.errors import UnitError
from pssim.units import parse_bytes, parse_bytes_per_s, parse_flops_per_s, parse_seconds

CHECKOUT = Path(__file__).parents[1]
UNITS = (CHECKOUT / "docs" / "units.md").read_text(encoding="utf-8")

PARSERS: dict[str, Callable[[object], float]] = {
    "s": parse_seconds,
    "bytes": parse_bytes,
    "bytes/s": parse_bytes_per_s,
    "FLOP/s": parse_flops_per_s,
}

PAGES = sorted(page for folder in (".", "docs", "benchmarks") for page in (CHECKOUT / folder).glob("*.md"))

SPELLING = re.compile(r"^\|[^|]*\| `([^`]+)` \| ([0-9.e-]+) (\S+) \|$", re.MULTILINE)
REFUSED = re.compile(r"^\| `([^`]+)` \| (did you mean .*\?) \|$", re.MULTILINE)


@pytest.mark.parametrize(("spelling", "number", "unit"), SPELLING.findall(UNITS))
def test_spellings_in_the_table_of_units_are_accepted(spelling: str, number: str, unit: str) -> None:
    """Each row of the table reads as it says."""
    assert PARSERS[unit](spelling) == float(number)


@pytest.mark.parametrize(("text", "message"), REFUSED.findall(UNITS))
def test_spellings_that_are_refused_get_that_hint(text: str, message: str) -> None:
    """The examples of messages are messages."""
    with pytest.raises(UnitError) as raised:
        parse_bytes_per_s(text)
    assert message in str(raised.value)


def test_the_table_of_units_has_every_prefix() -> None:
    """Every kind of quantity is there, with every prefix it takes."""
    spelled = set(re.findall(r"\| `1 (\S+)` \|", UNITS))
    assert {f"{prefix}s" for prefix in ("", "m", "u", "n", "p")} <= spelled
    assert {f"{prefix}FLOP/s" for prefix in ("", "k", "M", "G", "T", "P", "E")} <= spelled
    data = ("", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
    assert {f"{prefix}B" for prefix in data} <= spelled


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(CHECKOUT)) for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    """A relative link names a file that is there."""
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_the_index_names_every_page() -> None:
    """A page that nothing links to is found by nobody."""
    index = (CHECKOUT / "docs" / "index.md").read_text(encoding="utf-8")
    for page in (CHECKOUT / "docs").glob("*.md"):
        assert page.name == "index.md" or f"({page.name})" in index
