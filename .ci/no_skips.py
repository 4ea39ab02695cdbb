"""A pytest plugin: a skipped test fails the run, unless allowed-skips.txt beside this file allows it.

A line of that file is a glob over node ids, two spaces, ``#`` and the reason:

    tests/test_gpu.py::*  # there is no accelerator here
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ALLOWED = Path(__file__).with_name("allowed-skips.txt")

_skipped: dict[str, str] = {}


def allowed_globs(text: str) -> list[str]:
    """The globs of the file's lines.  Raise UsageError for a line that gives no reason."""
    globs = []
    for number, line in enumerate(text.splitlines(), start=1):
        glob, _, reason = (part.strip() for part in line.partition("#"))
        if glob and not reason:
            raise pytest.UsageError(f"{ALLOWED.name}:{number}: {glob} needs a reason: '{glob}  # why'")
        if glob:
            globs.append(glob)
    return globs


def _note(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        where = report.longrepr
        _skipped[report.nodeid] = where[2] if isinstance(where, tuple) else str(where)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note a test that was skipped."""
    _note(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Note a file that was skipped as a whole."""
    _note(report)


def _unexpected() -> dict[str, str]:
    globs = allowed_globs(ALLOWED.read_text(encoding="utf-8"))
    return {
        node: why for node, why in _skipped.items() if not any(fnmatchcase(node, glob) for glob in globs)
    }


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that would have passed."""
    if _unexpected() and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name what was skipped, before pytest's closing line."""
    unexpected = _unexpected()
    if unexpected:
        terminalreporter.section("skipped, which fails this run", red=True)
        for node, why in sorted(unexpected.items()):
            terminalreporter.line(f"{node}: {why}")
