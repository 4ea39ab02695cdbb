"""Run directories, written completely or not at all.

Files are first written into a hidden folder beside the target, which is then renamed: whoever looks
at the target sees either nothing or everything, also after a full disk or a second Ctrl-C.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

from pssim.errors import OutputError

__all__ = ["check_directory", "default_directory", "write_directory"]


def default_directory(name: str, now: datetime, base: Path | None = None) -> Path:
    """``runs/NAME-YYYYmmdd-HHMMSS`` below ``base``, by default here; numbered if that is taken."""
    clean = re.sub(r"[^\w.-]+", "-", name).strip(".-") or "run"
    first = (base or Path.cwd()) / "runs" / f"{clean}-{now:%Y%m%d-%H%M%S}"
    numbered = (first.with_name(f"{first.name}-{number}") for number in itertools.count(2))
    return next(path for path in itertools.chain([first], numbered) if not os.path.lexists(path))


def check_directory(target: Path) -> Path:
    """The resolved target, if a run directory can be written there; nothing is left behind by asking.

    Raise OutputError if it exists and is not an empty directory, or cannot be created.
    """
    try:
        resolved = target.resolve()
        fault = _unusable(resolved)
        if fault:
            raise OutputError(f"a run directory must not exist yet, or be empty: {str(target)!r} {fault}")
        # Trying is the only test that holds for every user and every file system.
        ancestor = next(folder for folder in resolved.parents if os.path.lexists(folder))
        os.rmdir(tempfile.mkdtemp(prefix=_hidden(resolved), dir=ancestor))
    except (OSError, ValueError, RuntimeError) as error:  # the latter two: odd names, circular links
        raise _refused(target, error) from error
    return resolved


def _unusable(resolved: Path) -> str:
    """Why an existing target cannot be replaced by a run directory, if so."""
    if not resolved.exists():
        return ""
    if not resolved.is_dir():
        return "is a file"
    if any(resolved.iterdir()):
        return "has files in it"
    if resolved.is_mount() or resolved == Path.cwd():
        return "is in use as a mount point or working directory; name a new one below it"
    return ""


def write_directory(target: Path, files: Mapping[str, Callable[[], bytes]]) -> Path:
    """Write these files as the directory ``target``, all of them or none; give its resolved path.

    Each file's content is made when its turn comes.  Raise OutputError if the target cannot be written.
    """
    resolved = check_directory(target)
    missing = list(itertools.takewhile(lambda folder: not folder.exists(), resolved.parents))
    partial: Path | None = None
    try:
        resolved.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=_hidden(resolved), dir=resolved.parent))
        for name, content in files.items():
            _write(partial / name, content())
        partial.chmod(0o777 & ~_umask())  # mkdtemp keeps others out
        os.rename(partial, resolved)
    except BaseException as error:
        if partial is not None:
            shutil.rmtree(partial, ignore_errors=True)
        for folder in missing:
            with contextlib.suppress(OSError):
                folder.rmdir()
        if isinstance(error, OSError):
            raise _refused(target, error) from error
        raise
    return resolved


def _hidden(target: Path) -> str:
    return f".{target.name[:100]}.partial-"


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())  # a rename must not become visible before what it names


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _refused(target: Path, error: Exception) -> OutputError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return OutputError(f"cannot write the run directory {str(target)!r}: {reason}")
