"""Where a result comes from: versions, seed, command, machine.

Dates, hosts and durations are here and nowhere else, so that all other files of two equal runs are
the same bytes.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

__all__ = ["manifest_of"]

_VERSIONS = ("pssim", "numpy", "scipy", "simpy", "pandas", "matplotlib", "pydantic")


def manifest_of(
    *,
    scenario: str,
    engine: str,
    seed: int,
    started: datetime,
    simulated_s: float,
    interrupted: bool = False,
    command: Sequence[str] | None = None,
) -> dict[str, Any]:
    """The manifest of a run of ``scenario``, for which ``engine`` was asked, begun at ``started``."""
    return {
        "scenario": scenario,
        "engine": engine,
        "seed": seed,
        "command": list(sys.argv if command is None else command),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in _VERSIONS}},
        "date": started.astimezone().isoformat(timespec="seconds"),
        "host": platform.node(),
        "platform": platform.platform(),
        "cpu_count": os.cpu_count(),
        "durations": {"simulated_s": simulated_s},
        "interrupted": interrupted,
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:  # run from a source tree that is not installed
        return None
