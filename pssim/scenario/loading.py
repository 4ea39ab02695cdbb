"""From a name or a path to a scenario that has been checked as a whole.

Everything that is wrong is found before anything is said: the text, every setting by itself, what
does not fit together, the schemes and their options, and the files the scenario names.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from pssim import catalogue
from pssim.errors import CatalogueError, ProfileError, ScenarioError
from pssim.scenario.checks import core_fault, cross_faults, scheme_faults
from pssim.scenario.entries import Chosen, choose, read_entries
from pssim.scenario.explain import setting_sources
from pssim.scenario.faults import Fault, near, scenario_error, spoken
from pssim.scenario.idle import idle_settings
from pssim.scenario.locate import key_lines
from pssim.scenario.origin import Mark, Origin
from pssim.scenario.override import put, set_option
from pssim.scenario.schema import Cluster, Part, Scenario, SchemeEntry, Training, Workload
from pssim.workload.device import Device, load_device
from pssim.workload.profile import load_profile

__all__ = ["ENGINES", "Loaded", "load"]

ENGINES = ("auto", "events", "vector", "analytic")

# Far more than anybody writes by hand, and little enough to be checked at once.
_LARGEST_BYTES = 2**20


@dataclass(frozen=True)
class Loaded:
    """A scenario that can be run, and where each of its settings came from.

    ``sources`` maps dotted keys (``cluster.link.latency``) to ``file.toml:14``, ``--set`` or
    ``default``.  ``warnings`` says which of the settings cannot matter here.
    """

    scenario: Scenario
    name: str
    path: Path
    profile_path: Path
    device_path: Path | None
    sources: dict[str, str]
    warnings: tuple[str, ...]


def load(
    name_or_path: str | os.PathLike[str],
    *,
    overrides: Sequence[str] = (),
    schemes: str | None = None,
    replications: int | None = None,
    seed: int | None = None,
    engine: str | None = None,
) -> Loaded:
    """The scenario of this name or at this path, with the command line's settings laid over it.

    ``overrides`` are the ``key=value`` of ``--set``, applied first; ``schemes`` takes the place of the
    list of schemes, ``replications`` that of every number of replications.  Raise CatalogueError if
    there is no such scenario, ScenarioError with all faults if it cannot be run.
    """
    path = catalogue.find_scenario(os.fspath(name_or_path))
    folder = path.absolute().parent
    origin = _read(path)
    faults: list[Fault] = []
    for text in overrides:
        faults += set_option(origin, text)
    for key, value in (("replications", replications), ("seed", seed)):
        if value is not None:
            put(origin, ("training", key), value, f"--{key}")
    if replications is not None:
        _drop_own_replications(origin)
    if engine is not None and engine not in ENGINES:
        message = f"must be one of {', '.join(ENGINES)}, it is {engine!r}{near(engine, ENGINES)}"
        faults.append(Fault((), message, "--engine"))

    faults += _setting_faults(origin.raw)
    chosen: list[Chosen] = []
    if origin.is_given(("scheme",)) or schemes is None:
        chosen, found = read_entries(origin, folder)
        faults += found
    if schemes is not None and (chosen or not origin.is_given(("scheme",))):
        chosen, found = choose(origin, chosen, schemes)
        faults += found
    workload, cluster, training = (
        _section(Workload, origin.raw.get("workload")),
        _section(Cluster, origin.raw.get("cluster")),
        _section(Training, origin.raw.get("training")),
    )
    faults += [Fault(key, message) for key, message in cross_faults(workload, cluster, training)]
    faults += [Fault(key, message) for key, message in scheme_faults(chosen, cluster, training)]
    profile_path = device_path = None
    if workload is not None:
        profile_path, _ = _file("profile", workload.profile, origin, folder, faults)
        device_path, device = _file("device", workload.device, origin, folder, faults)
        if cluster is not None and isinstance(device, Device):
            faults += [Fault(key, message) for key, message in core_fault(cluster, device)]
    if faults or profile_path is None:
        raise scenario_error(faults, origin)

    scenario = _scenario(origin.raw, [one.entry for one in chosen])
    return Loaded(
        scenario=scenario,
        name=path.stem,
        path=path,
        profile_path=profile_path,
        device_path=device_path,
        sources=setting_sources(origin, scenario),
        warnings=tuple(idle_settings(scenario, [one.scheme for one in chosen], origin, engine)),
    )


# ---------------------------------------------------------------------------------------- the file


def _read(path: Path) -> Origin:
    """The text of a scenario file as settings.  Raise ScenarioError, with the line, if it is no TOML."""
    origin = Origin(file=_spelt(path), short=path.name)
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_BYTES + 1)
    except OSError as error:
        raise ScenarioError(f"{origin.file}: cannot be read: {error.strerror or error}") from error
    if len(content) > _LARGEST_BYTES:
        raise ScenarioError(f"{origin.file}: must be a scenario of at most 1 MiB, it is larger")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ScenarioError(
            f"{origin.file}:{line}: must be UTF-8 text, it has byte 0x{content[error.start]:02x}"
        ) from error
    try:
        origin.raw = tomllib.loads(text)
        origin.marks = {key: Mark(line=line) for key, line in key_lines(text).items()}
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(_syntax_fault(origin.file, text, str(error))) from error
    except (ValueError, RecursionError) as error:
        raise ScenarioError(f"{origin.file}:1: must be TOML: {error}") from error
    return origin


def _spelt(path: Path) -> str:
    """The path as short as it can be said from the working directory."""
    absolute = path.absolute()
    return str(absolute.relative_to(Path.cwd())) if absolute.is_relative_to(Path.cwd()) else str(absolute)


def _syntax_fault(file: str, text: str, message: str) -> str:
    """What tomllib found, with the line in front, and a hint at the commonest slip."""
    lines = text.splitlines() or [""]
    found = re.search(r" \(at line (\d+), column (\d+)\)$", message)
    # At the end of the document there is no line in the message.
    line = int(found[1]) if found else len(lines)
    reason = re.sub(r" \(at .*\)$", "", message)
    written = lines[min(line, len(lines)) - 1]
    quantity = re.search(r"[=\[,]\s*([0-9][0-9_.eE+-]*\s*[A-Za-zµμ][\w/]*)", written)
    hint = f'; did you mean "{quantity[1]}", in quotes?' if quantity else ""
    column = f" in column {found[2]}" if found else " at the end"
    return f"{file}:{line}: must be TOML: {reason[:1].lower()}{reason[1:]}{column}{hint}"


# ------------------------------------------------------------------------------------ the settings


def _drop_own_replications(origin: Origin) -> None:
    """--replications holds for every scheme, also for one that has its own number in the file."""
    entries = origin.raw.get("scheme")
    for position, table in enumerate(entries if isinstance(entries, list) else ()):
        if isinstance(table, dict) and "replications" in table:
            put(origin, ("scheme", position, "replications"), None, "--replications")


def _setting_faults(raw: dict[str, Any]) -> list[Fault]:
    """Every setting by itself, the schemes apart."""
    try:
        _scenario(raw, [SchemeEntry(name="checked elsewhere")])
    except ValidationError as error:
        # What does not fit together has no key of its own here, and is looked for separately.
        return [fault for fault in spoken(error, Scenario) if fault.path]
    return []


def _scenario(raw: dict[str, Any], entries: list[SchemeEntry]) -> Scenario:
    return Scenario.model_validate({**raw, "scheme": entries})


P = TypeVar("P", bound=Part)


def _section(model: type[P], raw: object) -> P | None:
    """A section, or None where it has faults of its own."""
    try:
        return model.model_validate(raw)
    except ValidationError:
        return None


_FILES: dict[str, tuple[Callable[[str, Path], Path], Callable[[Path], object]]] = {
    "profile": (catalogue.find_profile, load_profile),
    "device": (catalogue.find_device, load_device),
}


def _file(
    key: str, name: str | None, origin: Origin, folder: Path, faults: list[Fault]
) -> tuple[Path | None, object]:
    """The file that a setting of the workload names, and what is in it.

    It is looked for in ``folder``, or in the working directory if the name was typed there.
    """
    if name is None:
        return None, None
    find, read = _FILES[key]
    try:
        path = find(name, Path.cwd() if origin.mark(("workload", key)).option else folder)
        return path, read(path)
    except (CatalogueError, ProfileError) as error:
        faults.append(Fault(("workload", key), str(error)))
        return None, None
