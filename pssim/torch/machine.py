"""The machine that a measurement is taken on: what it is, and how it is held still meanwhile."""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import torch
from pydantic import JsonValue

__all__ = ["describe_machine", "freed_memory_kept", "threads_set"]

# mallopt's parameters (malloc.h) and what glibc starts with.
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
_TRIM_THRESHOLD_AT_START, _MMAP_MAX_AT_START = 128 * 1024, 65536


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
        # Whoever else was computing: 0 on an idle machine.
        "load_at_start": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
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


@contextmanager
def threads_set(count: int | None) -> Iterator[None]:
    """Compute with this many threads meanwhile."""
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def freed_memory_kept() -> Iterator[str]:
    """Make malloc keep freed memory meanwhile; gives a note of what was done.

    Left alone, glibc hands every tensor above 32 MiB back to the system and faults it in anew, page by
    page, in the next step.  That makes a large batch slower than its arithmetic, by an amount that
    depends on the kernel, and is what tcmalloc or jemalloc are used to avoid.
    """
    if platform.libc_ver()[0] != "glibc":
        yield "the system's own"
        return
    libc = ctypes.CDLL(None)
    libc.mallopt(_M_MMAP_MAX, 0)
    libc.mallopt(_M_TRIM_THRESHOLD, -1)
    try:
        yield "glibc, told to keep freed memory (mallopt M_MMAP_MAX 0, M_TRIM_THRESHOLD -1)"
    finally:
        libc.mallopt(_M_MMAP_MAX, _MMAP_MAX_AT_START)
        libc.mallopt(_M_TRIM_THRESHOLD, _TRIM_THRESHOLD_AT_START)
