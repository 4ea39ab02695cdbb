"""What the README and the pages of the documentation show is what happens."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest

import pssim
from pssim.registry import load_scheme_file
from pssim.results.columns import PARTS

CHECKOUT = Path(__file__).parents[1]

_spec = importlib.util.spec_from_file_location("pages", CHECKOUT / "docs" / "pages.py")
assert _spec is not None
assert _spec.loader is not None
pages = importlib.util.module_from_spec(_spec)
sys.modules["pages"] = pages
_spec.loader.exec_module(pages)

README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
BY_NAME = {page.name: page for page in pages.PAGES}
SLOW = [name for name, page in BY_NAME.items() if "<!-- run, slow -->" in page.read_text(encoding="utf-8")]
SCENARIOS = sorted(
    path.name for path in pages.EXAMPLES.glob("*.toml") if "[[scheme]]" in path.read_text(encoding="utf-8")
)
SCHEMES = [
    (path.name, name)
    for path in sorted(pages.EXAMPLES.glob("*.py"))
    for name in re.findall(r"^class (\w+)\(Scheme\)", path.read_text(encoding="utf-8"), re.MULTILINE)
]


def run_small(tmp_path, **settings):
    """The example scenario with a copy of the examples around it, small enough to take no time."""
    overrides = ["training.nodes=[1, 3]", "training.steps=24", "training.replications=2"]
    loaded = pssim.load(pages.EXAMPLES / settings.pop("scenario"), overrides=overrides, **settings)
    return pssim.run(loaded, processes=1)


# --------------------------------------------------------------------------------------- pages


@pytest.mark.parametrize("name", BY_NAME)
def test_files_commands_and_output_on_a_page_are_what_they_are(name, tmp_path):
    """Whoever follows a page sees what the page shows; ``python docs/pages.py --update`` renews it."""
    faults, _ = pages.checked(BY_NAME[name], tmp_path)
    assert not faults, "\n".join(faults)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_commands_that_take_long_give_what_a_page_shows(name, tmp_path):
    """The table in the README, above all."""
    faults, _ = pages.checked(BY_NAME[name], tmp_path, slow=True)
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("name", BY_NAME)
def test_tables_on_a_page_are_those_of_pssim(name):
    """Columns, settings and options; ``python docs/pages.py --update`` renews them."""
    assert pages.generated(BY_NAME[name]) == BY_NAME[name].read_text(encoding="utf-8")


def test_the_pages_are_looked_after():
    """A mark with a slip in it would leave a block unchecked: all fences of these kinds have one."""
    unchecked = {"bash": 0, "python": 0, "text": 0}
    for page in pages.PAGES:
        text = page.read_text(encoding="utf-8")
        marked = [block.start for block in pages.blocks(text)]
        for fence in re.finditer(r"^```(\w+)\n", text, re.MULTILINE):
            if fence[1] in unchecked and fence.end() not in marked:
                unchecked[fence[1]] += 1
    # The README's two installations, a calibration, and two lines of options.
    assert unchecked == {"bash": 3, "python": 1, "text": 0}


def test_a_page_that_is_wrong_is_found_out(tmp_path):
    """Files, exit codes, output: each kind of fault is named with its line."""
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- file: my_gpu.toml -->\n```toml\nnot it\n```\n"
        "<!-- write: said.txt -->\n```text\nhello\n```\n"
        "<!-- append: said.txt -->\n```text\nworld\n```\n"
        "<!-- run -->\n```bash\ncat said.txt\n```\n"
        "<!-- prints -->\n```text\n hello\n...\nword\n```\n"
        "<!-- run, exits 3 -->\n```bash\nfalse\nexit 4\n```\n"
        "<!-- rum -->\n```bash\ntrue\n```\n"
    )
    faults, renewed = pages.checked(page, tmp_path / "folder")
    assert faults == [
        "page.md:1: is not the file docs/examples/my_gpu.toml",
        "page.md:17: not printed: word",
        "page.md:23: ended with 4 instead of 3:\n",
        "page.md:28: unknown mark 'rum'",
    ]
    assert "hello\n...\nworld\n" in renewed


# ------------------------------------------------------------------------------------- examples


@pytest.mark.parametrize("name", SCENARIOS)
def test_example_scenarios_run(name, tmp_path):
    """With a row for each scheme and size, whose parts add up."""
    result = run_small(tmp_path, scenario=name)
    assert len(result.rows) == 2 * len(result.loaded.scenario.schemes)
    assert (result.table[list(PARTS)].sum(axis=1) - result.table["step_s"]).abs().max() < 1e-9


@pytest.mark.parametrize(("file", "name"), SCHEMES)
def test_example_schemes_run(file, name, tmp_path):
    """In the example scenario, beside a bundled scheme, and no rank is faster than it would be alone."""
    result = run_small(tmp_path, scenario="my_cluster.toml", schemes=f"sync,{pages.EXAMPLES / file}:{name}")
    assert len(result.rows) == 4
    assert all(0 < row["efficiency"] <= 1 for row in result.rows)


def test_examples_of_both_kinds_are_there():
    """One scheme runs in lock step, one does not."""
    engines = {"local_sgd.py": "vector", "ring_gossip.py": "events"}
    assert {file for file, _ in SCHEMES} == set(engines)
    for file, name in SCHEMES:
        loaded = pssim.load(
            pages.EXAMPLES / "my_cluster.toml",
            schemes=f"{pages.EXAMPLES / file}:{name}",
            overrides=["training.nodes=[2]", "training.steps=8", "training.replications=1"],
        )
        assert pssim.run(loaded, processes=1).rows[0]["engine"] == engines[file]


def test_every_example_is_on_a_page():
    """An example that no page shows is found by nobody."""
    shown = {block.mark for page in pages.PAGES for block in pages.blocks(page.read_text(encoding="utf-8"))}
    for path in pages.EXAMPLES.iterdir():
        if path.suffix in (".py", ".toml", ".json"):
            assert f"file: {path.name}" in shown


def test_options_of_example_schemes_are_described():
    """As the page on schemes advises."""
    for file, name in SCHEMES:
        scheme = load_scheme_file(f"{file}:{name}", pages.EXAMPLES).scheme
        assert scheme.model_fields
        assert all(field.description for field in scheme.model_fields.values())


def test_local_sgd_that_averages_every_step_is_synchronous(tmp_path):
    """But for the update, which comes before the averaging instead of after it: the step is the same."""
    result = run_small(
        tmp_path,
        scenario="my_cluster.toml",
        schemes=f"sync,{pages.EXAMPLES / 'local_sgd.py'}:LocalSGD[period=1]",
    )
    steps = result.table.set_index(["scheme", "nodes"])["step_s"].unstack("scheme")
    sync, local = (steps[name] for name in sorted(steps.columns, key=len))
    assert (sync - local).abs().max() < 1e-9


# --------------------------------------------------------------------------------------- README


def test_the_readme_begins_with_its_two_commands():
    """One line each, which CI runs as they stand."""
    first, second = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)[:2]
    make = "python3 -m venv .venv && .venv/bin/pip install -c constraints.txt"
    assert first == ("bash", f"{make} . && .venv/bin/pssim run tianhe2-resnet50\n")
    assert second == ("bash", f"{make} '.[torch,test]' && .venv/bin/pytest\n")


def test_the_readme_compares_the_paper_with_its_own_table():
    """The efficiencies in its last sections are those of the table."""
    rows = re.findall(r"^([\w-]+) +(64|128) +[\d,]+ +\w+ +[\d.]+ +[\d.,]+ +([\d.]+) ±", README, re.MULTILINE)
    found = {(scheme, int(nodes)): efficiency for scheme, nodes, efficiency in rows}
    for scheme in ("sync", "sync-overlap", "pseudo-sync"):
        says = rf"{found[scheme, 64]} % and\s+{found[scheme, 128]} % for\s+`{scheme}`"
        assert re.search(says, README), says


def test_the_picture_in_the_readme_is_there_and_small():
    """A clone stays quick."""
    picture = CHECKOUT / "docs" / "images" / "efficiency.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < 150_000


def test_exit_codes_of_the_readme(tmp_path, capsys, monkeypatch):
    """Those that a user can bring about from outside."""
    from pssim.cli.main import main

    monkeypatch.chdir(tmp_path)
    assert main(["list"]) == 0
    assert main(["run", "no-such-scenario"]) == 2
    capsys.readouterr()
    assert main(["explain", "efficiency", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["key"] == "efficiency"
