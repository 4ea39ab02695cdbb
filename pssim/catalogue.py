"""Finds scenarios, profiles and devices, bundled with pssim or in a file of the user's.

This is the only module that knows where bundled files lie: inside the package once installed, at
the top of the source tree in a checkout.  Everywhere else a file is asked for by kind and by what
the user wrote: the name of a bundled one, or a path.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from pssim.errors import CatalogueError

__all__ = [
    "device_names",
    "find_device",
    "find_profile",
    "find_scenario",
    "profile_names",
    "scenario_names",
]

_PACKAGE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class _Kind:
    """What is looked for, in which folder of the data, and how its files end."""

    word: str
    folder: str
    suffix: str


_SCENARIO = _Kind("scenario", "scenarios", ".toml")
_PROFILE = _Kind("profile", "calibration/profiles", ".json")
_DEVICE = _Kind("device", "calibration/devices", ".toml")


def scenario_names() -> list[str]:
    """The names of the bundled scenarios, sorted."""
    return _names(_SCENARIO)


def profile_names() -> list[str]:
    """The names of the bundled profiles, sorted."""
    return _names(_PROFILE)


def device_names() -> list[str]:
    """The names of the bundled devices, sorted."""
    return _names(_DEVICE)


def find_scenario(name: str, base: Path | None = None) -> Path:
    """The file of a scenario, by name or by path (relative to ``base``, else the working directory).

    Raise CatalogueError, with near matches, if there is none; likewise below.
    """
    return _find(_SCENARIO, name, base)


def find_profile(name: str, base: Path | None = None) -> Path:
    """The file of a profile, by name or by path."""
    return _find(_PROFILE, name, base)


def find_device(name: str, base: Path | None = None) -> Path:
    """The file of a device, by name or by path."""
    return _find(_DEVICE, name, base)


def _folder(kind: _Kind) -> Path:
    installed = _PACKAGE / "_data" / kind.folder
    return installed if installed.is_dir() else _PACKAGE.parent / kind.folder


def _names(kind: _Kind) -> list[str]:
    return sorted(path.stem for path in _folder(kind).glob(f"*{kind.suffix}"))


def _find(kind: _Kind, name: str, base: Path | None) -> Path:
    names = _names(kind)
    if name in names:
        return _folder(kind) / f"{name}{kind.suffix}"
    path = (base or Path()) / name
    try:
        if path.is_file():
            return path
        reason = _reason(kind, name, path, names)
    except (OSError, ValueError) as error:  # too long for a file name, or not to be looked at
        reason = str(error)
    shown = name if len(name) <= 80 else f"{name[:77]}..."
    raise CatalogueError(f"no {kind.word} {shown!r}: {reason}")


def _reason(kind: _Kind, name: str, path: Path, names: list[str]) -> str:
    """Why there is nothing to be found under this name, and what may have been meant."""
    if "/" in name or name.endswith(kind.suffix):
        if path.exists():
            return "that is a folder" if path.is_dir() else "that is not a file"
        return "there is no such file" + _near(path.name, [found.name for found in _siblings(kind, path)])
    known = f"it must be the path of a {kind.suffix} file or one of {', '.join(names)}"
    if path.name and path.with_name(f"{path.name}{kind.suffix}").is_file():
        return f"{known}; did you mean '{name}{kind.suffix}'?"
    return known + _near(name, names)


def _siblings(kind: _Kind, path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"*{kind.suffix}")) if path.parent.is_dir() else []


def _near(name: str, names: list[str]) -> str:
    """The names that resemble this one, else those that begin with it."""
    beginning = [other for other in names if name and other.startswith(name)]
    near = get_close_matches(name, names, n=3, cutoff=0.75) or beginning[:3]
    return f"; did you mean {' or '.join(repr(other) for other in near)}?" if near else ""
