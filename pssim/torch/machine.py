"""What a measurement was taken on: processor, cores, threads, versions, date."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path

import torch

from pydantic import JsonValue

__all__ = ["describe_machine"]


def describe_machine() -> dict[str, JsonValue]:
    """The machine and software that this process runs on, for a file's provenance."""
    return {
        "evidence": "measured",
        "processor": _processor(),
        "cores": os.cpu_count() or 1,
        "threads": torch.get_num_threads(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "date": datetime.now(UTC).date().isoformat(),
    }


def _processor() -> str:
    """The processor's own name for itself, where the system tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
