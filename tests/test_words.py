"""What the repository's own files must not say: where one machine keeps its files, and who worked on what."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]

# Written in pieces, so that this file does not say them either.
PATHS = re.compile("|".join(rf"(?<![\w.*:-])/{name}/" for name in ("work", "root", "opt", "home")))
HOSTS = re.compile(
    "|".join(
        rf"{name}\.{domain}"
        for name, domain in (
            ("pypi", "org"),
            ("pythonhosted", "org"),
            ("download.pytorch", "org"),
            ("debian", "org"),
            ("npmjs", "org"),
        )
    )
)
PROCESS = re.compile(
    "|".join(
        (
            r"\.\./" + "shared",
            r"\bshared/" + r"\w+\.md",
            r"\b(?:this|previous|earlier|last|another|next) " + r"session\b",
            r"\bissue" + r" #?\d+\b",
            r"\bissues" + r" (?:show|list|resolved|blocked)\b",
            r"\bowner" + r" [A-F]\b",
            r"\bhelper" + r" (?:session|agent|[A-F]\b)",
            r"\bsub-?" + r"agents?\b",
            r"\blanguage model" + r" (?:wrote|made)",
            r"\bAI" + r" assistant",
        )
    ),
    re.IGNORECASE,
)


def tracked() -> Iterator[tuple[str, str]]:
    """The name and the text of each text file that git tracks."""
    git = shutil.which("git")
    if git is None or not (CHECKOUT / ".git").exists():
        pytest.skip("these are not the tests of a git checkout")
    names = subprocess.run([git, "ls-files", "-z"], cwd=CHECKOUT, check=True, capture_output=True).stdout
    for name in filter(None, names.decode().split("\0")):
        path = CHECKOUT / name
        if not path.is_file():  # removed, and not committed yet
            continue
        try:
            yield name, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def found(pattern: re.Pattern[str]) -> list[str]:
    """Where the pattern is found, as file:line: what."""
    return [
        f"{name}:{number}: {match.group()}"
        for name, text in tracked()
        for number, line in enumerate(text.splitlines(), start=1)
        for match in pattern.finditer(line)
    ]


def test_files_name_no_folder_of_one_machine() -> None:
    """A path that exists on one machine only helps nobody who reads the file elsewhere."""
    assert found(PATHS) == []


def test_files_name_no_package_registry() -> None:
    """Where packages come from is for whoever installs to choose."""
    assert found(HOSTS) == []


def test_files_tell_of_the_project_not_of_its_making() -> None:
    """Files say what the code does and why, not in which sitting or by whom it was written."""
    assert found(PROCESS) == []


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (PATHS, "see /" + "work/main"),
        (PATHS, '"/' + 'opt/venv/bin/python"'),
        (HOSTS, "https://" + "pypi" + ".org/simple"),
        (PROCESS, "as in ../" + "shared"),
        (PROCESS, "see shared" + "/design.md"),
        (PROCESS, "asked for by issue" + " 3"),
        (PROCESS, "by owner" + " B"),
    ],
)
def test_what_is_looked_for_is_found(pattern: re.Pattern[str], text: str) -> None:
    """The patterns are not empty promises."""
    assert pattern.search(text)
