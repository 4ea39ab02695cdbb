"""Keeps what the pages show true: their files, commands and output, and the tables made from pssim itself.

A fenced block is looked after if the line before it is one of these comments:

=========================  ==========================================================================
``file: NAME``             the block is the file docs/examples/NAME
``write: NAME``            the block is written to NAME, for the commands after it
``append: NAME``           the block is added to the end of NAME
``run``                    the block is run: shell commands, or a Python script; it must succeed
``run, exits 2``           its last command must end with that exit code
``run, slow``              it is run with --slow only
``prints``                 each line is among the lines that the block before it printed, in this order,
                           but for spaces and the folder; a line of three dots stands for any lines
=========================  ==========================================================================

What stands between the comments ``generated: NAME`` and ``end`` is written by this script.

    python docs/pages.py            say what is not true any more
    python docs/pages.py --update   write it anew: tables, and lines of output by the most similar line
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

__all__ = ["CHECKOUT", "EXAMPLES", "PAGES", "Block", "blocks", "checked", "generated"]

CHECKOUT = Path(__file__).resolve().parents[1]
EXAMPLES = CHECKOUT / "docs" / "examples"
PAGES = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").glob("*.md"))]

_BLOCK = re.compile(r"^<!-- (?P<mark>[^>\n]+) -->\n```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S)
_GENERATED = re.compile(
    r"(?P<head>^<!-- generated: (?P<name>[\w-]+) -->\n)(?P<text>.*?)(?P<tail>^<!-- end -->$)", re.M | re.S
)
_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class Block:
    """A block that is looked after: its mark, language and text, and where the text is in the page."""

    mark: str
    language: str
    text: str
    line: int
    start: int

    @property
    def is_run(self) -> bool:
        """Whether it holds commands or a script."""
        return self.mark == "run" or self.mark.startswith("run,")

    @property
    def slow(self) -> bool:
        """Whether it is run only when that is asked for."""
        return "slow" in self.mark

    @property
    def code(self) -> int:
        """The exit code it must have."""
        found = re.search(r"exits (\d+)", self.mark)
        return int(found[1]) if found else 0


def blocks(text: str) -> list[Block]:
    """The blocks of a page that are looked after, in their order."""
    return [
        Block(
            found["mark"], found["language"], found["text"], text.count("\n", 0, found.start()) + 1,
            found.start("text"),
        )
        for found in _BLOCK.finditer(text)
    ]  # fmt: skip


def checked(page: Path, folder: Path, *, slow: bool = False) -> tuple[list[str], str]:
    """What is not true on a page, as ``page:line: fault``, and the page with its output as it is now.

    Commands are run in ``folder``, which gets a copy of the examples.  ``slow`` runs the slow blocks,
    and nothing but them.
    """
    shutil.copytree(EXAMPLES, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    text = renewed = page.read_text(encoding="utf-8")
    faults: list[str] = []
    printed: list[str] | None = None
    for block in blocks(text):
        place = f"{page.name}:{block.line}"
        if block.is_run:
            printed = None
            if block.slow == slow:
                printed, code = _run(block, folder)
                if code != block.code:
                    shown = "\n".join(printed[-20:])
                    faults.append(f"{place}: ended with {code} instead of {block.code}:\n{shown}")
        elif block.mark == "prints":
            if printed is not None:
                lines, wrong = _as_printed(block, printed)
                faults += [f"{place}: not printed: {line}" for line in wrong]
                renewed = renewed.replace(block.text, "".join(f"{line}\n" for line in lines), 1)
        else:
            faults += [f"{place}: {fault}" for fault in _on_file(block, folder)]
    return faults, renewed


def _on_file(block: Block, folder: Path) -> Iterator[str]:
    """Write the block's file, or compare it with the example."""
    action, _, name = block.mark.partition(": ")
    if action == "file":
        path = EXAMPLES / name
        if not path.is_file() or path.read_text(encoding="utf-8") != block.text:
            yield f"is not the file docs/examples/{name}"
    elif action == "write":
        (folder / name).write_text(block.text, encoding="utf-8")
    elif action == "append":
        path = folder / name
        path.write_text(f"{path.read_text(encoding='utf-8')}\n{block.text}", encoding="utf-8")
    else:
        yield f"unknown mark {block.mark!r}"


def _run(block: Block, folder: Path) -> tuple[list[str], int]:
    """The lines that a block prints, and its exit code; ``pssim`` is the one of this interpreter."""
    if block.language == "python":
        (folder / "block.py").write_text(block.text, encoding="utf-8")
        command = [sys.executable, "block.py"]
    else:
        command = ["bash", "-uc" if block.code else "-euc", block.text]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path, "COLUMNS": "80", "PYTHONIOENCODING": "utf-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=_TIMEOUT_S,
        check=False,
    )
    printed = done.stdout.decode("utf-8", "replace").replace(f"{folder.resolve()}{os.sep}", "")
    return printed.splitlines(), done.returncode


def _as_printed(block: Block, printed: list[str]) -> tuple[list[str], list[str]]:
    """The block's lines as they are printed now, and those of its lines that are not."""
    squeezed = [" ".join(line.split()) for line in printed]
    lines, wrong, at = [], [], 0
    for line in block.text.splitlines():
        wanted = " ".join(line.split())
        if wanted == "...":
            lines.append(line)
            continue
        try:
            at = squeezed.index(wanted, at)
        except ValueError:
            wrong.append(line)
            # A row of a table is told by its first two cells, the scheme and the size.
            alike = [other for other in squeezed[at:] if other.split()[:2] == wanted.split()[:2]]
            near = get_close_matches(wanted, alike or squeezed[at:], n=1, cutoff=0.5)
            if not near:
                continue
            at = squeezed.index(near[0], at)
        lines.append(printed[at].rstrip())
        at += 1
    return lines, wrong


# ------------------------------------------------------------------------------------ generated tables


def generated(page: Path) -> str:
    """The page with its generated parts as pssim gives them now."""
    makers = {"columns": _columns, "options": _options}

    def renew(found: re.Match[str]) -> str:
        name = found["name"]
        text = makers[name]() if name in makers else _settings(name)
        return f"{found['head']}\n{text}\n{found['tail']}"

    return _GENERATED.sub(renew, page.read_text(encoding="utf-8"))


def _table(*rows: tuple[str, ...]) -> str:
    """A table of markdown; the first row is its head."""
    head, *body = [[cell.replace("|", r"\|") for cell in row] for row in rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *body))


def _columns() -> str:
    from pssim.results import COLUMNS

    rows = [
        (f"`{column.name}`", column.unit or "text", column.definition, f"`{column.formula}`")
        for column in COLUMNS.values()
    ]
    return _table(("column", "unit", "what it is", "formula"), *rows)


def _explained() -> list[dict[str, str]]:
    command = [sys.executable, "-m", "pssim", "explain", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
    entries: list[dict[str, str]] = json.loads(done.stdout)
    return entries


_OF_EVERY_SCHEME = ("scheme.name", "scheme.steps", "scheme.replications")


def _settings(section: str) -> str:
    """The settings of one section of a scenario; of schemes, those that every scheme has."""
    rows = [
        (f"`{entry['key']}`", entry["definition"], entry["values"], entry["default"])
        for entry in _explained()
        if entry["kind"] == "setting"
        and (entry["key"] == section or entry["key"].startswith(f"{section}."))
        and entry["values"] not in ("table", "array of tables")
        and (section != "scheme" or entry["key"] in _OF_EVERY_SCHEME)
    ]
    return _table(("key", "what it is", "values", "if not given"), *rows)


def _options() -> str:
    rows = [
        (f"`{entry['key'].removeprefix('scheme.')}`", entry["definition"], entry["values"], entry["default"])
        for entry in _explained()
        if entry["key"].startswith("scheme.") and entry["key"] not in _OF_EVERY_SCHEME
    ]
    return _table(("option", "what it is", "values", "if not given"), *rows)


# --------------------------------------------------------------------------------------------- the script


def main(arguments: list[str] | None = None) -> int:
    """Check or update the pages; 1 if something was not true."""
    parser = argparse.ArgumentParser(description="Check that the pages say what is true.")
    parser.add_argument("--update", action="store_true", help="write the pages anew")
    parser.add_argument("--slow", action="store_true", help="run the slow blocks too")
    parser.add_argument("pages", nargs="*", type=Path, help="pages, by default all")
    chosen = parser.parse_args(arguments)
    wrong = 0
    for page in [path.resolve() for path in chosen.pages] or PAGES:
        faults = []
        if generated(page) != page.read_text(encoding="utf-8"):
            faults.append(f"{page.name}: generated parts are out of date")
        if chosen.update:
            page.write_text(generated(page), encoding="utf-8")
        for slow in (False, True) if chosen.slow else (False,):
            with tempfile.TemporaryDirectory() as folder:
                found, renewed = checked(page, Path(folder), slow=slow)
            faults += found
            if chosen.update:
                page.write_text(renewed, encoding="utf-8")
        wrong += len(faults)
        sys.stdout.write("".join(f"{fault}\n" for fault in faults))
    return 1 if wrong and not chosen.update else 0


if __name__ == "__main__":
    sys.exit(main())
