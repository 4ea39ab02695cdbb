"""The schemes of a scenario: their options checked by the schemes themselves, and ``--scheme``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pssim.errors import SchemeError
from pssim.program import Scheme
from pssim.registry import parse_label, split_labels
from pssim.scenario.faults import Fault, spoken
from pssim.scenario.locate import KeyPath
from pssim.scenario.origin import Mark, Origin
from pssim.scenario.schema import SchemeEntry
from pssim.units import quote

__all__ = ["Chosen", "choose", "read_entries"]

_OWN = ("steps", "replications")


@dataclass(frozen=True, slots=True)
class Chosen:
    """An entry, what it makes, and where in the settings it stands.

    ``warm_up`` are the steps that the scheme itself sets apart, ``server_nodes`` the nodes it needs
    beside those of the workers.
    """

    entry: SchemeEntry
    scheme: Scheme
    label: str
    path: KeyPath
    warm_up: int
    server_nodes: int


def read_entries(origin: Origin, folder: Path) -> tuple[list[Chosen], list[Fault]]:
    """The schemes of the settings; ``file.py:Class`` is relative to ``folder``, or to the working
    directory where the command line said it.
    """
    at: KeyPath = ("scheme",)
    raw = origin.raw.get("scheme")
    if raw is None:
        return [], [Fault(at, 'must be given: the schemes to compare, each as [[scheme]] name = "..."')]
    if not isinstance(raw, list) or not raw:
        hint = "; did you mean [[scheme]] instead of [scheme]?" if isinstance(raw, dict) else ""
        return [], [Fault(at, f"must be a list of tables that is not empty, it is {quote(raw)}{hint}")]
    chosen: list[Chosen] = []
    faults: list[Fault] = []
    for position, table in enumerate(raw):
        path = (*at, position)
        said_here = origin.mark((*path, "name")).option
        try:
            chosen.append(_read(table, path, Path.cwd() if said_here else folder))
        except _EntryError as error:
            faults += error.faults
    faults += _repeated(chosen)
    return chosen, faults


def choose(origin: Origin, chosen: list[Chosen], text: str) -> tuple[list[Chosen], list[Fault]]:
    """The schemes that ``--scheme`` names instead of the scenario's.

    What the scenario has under that label, else under that name, is taken as it is there.  Anything
    else is new, with the options of its label, and with the steps and replications that the
    scenario gives to a scheme of that name.
    """
    labels = split_labels(text)
    if not labels:
        return [], [Fault((), f"must name a scheme, it is {quote(text)}", "--scheme")]
    picked: list[Chosen | dict[str, Any]] = []
    faults: list[Fault] = []
    for label in labels:
        same = [one for one in chosen if one.label == label] or [
            one for one in chosen if one.entry.name == label
        ]
        if same:
            picked += same
            continue
        try:
            name, options = parse_label(label)
        except (SchemeError, ValueError, RecursionError) as error:
            faults.append(Fault((), str(error), "--scheme"))
            continue
        alike = [one.entry for one in chosen if one.entry.name == name]
        inherited = {key: getattr(alike[0], key) for key in _OWN} if alike else {}
        picked.append({"name": name, **{k: v for k, v in inherited.items() if v is not None}, **options})
    result = _renumbered(origin, picked, faults)
    return result, faults + [replace(fault, option="--scheme") for fault in _repeated(result)]


def _renumbered(origin: Origin, picked: list[Chosen | dict[str, Any]], faults: list[Fault]) -> list[Chosen]:
    """Put what was picked in the place of the scenario's list, with its marks."""
    raw, marks = origin.raw.get("scheme") or [], dict(origin.marks)
    origin.forget(("scheme",))
    origin.marks[("scheme",)] = Mark(option="--scheme")
    origin.raw["scheme"] = [one if isinstance(one, dict) else raw[int(one.path[1])] for one in picked]
    result = []
    for position, one in enumerate(picked):
        path: KeyPath = ("scheme", position)
        if isinstance(one, Chosen):
            for known, mark in marks.items():
                if known[:2] == one.path:
                    origin.marks[(*path, *known[2:])] = mark
            result.append(replace(one, path=path))
            continue
        try:
            result.append(_read(one, path, Path.cwd()))
        except _EntryError as error:
            faults += error.faults
    return result


class _EntryError(Exception):
    """A scheme entry that cannot be used."""

    def __init__(self, *faults: Fault) -> None:
        super().__init__(*faults)
        self.faults = faults


def _read(table: object, path: KeyPath, folder: Path) -> Chosen:
    """The entry this table describes.  Raise _EntryError with everything that is wrong."""
    try:
        entry = SchemeEntry.model_validate(table).beside(folder)
    except ValidationError as error:
        raise _EntryError(*spoken(error, SchemeEntry, path)) from error
    try:
        variant = entry.variant
    except SchemeError as error:
        raise _EntryError(Fault((*path, "name"), str(error))) from error
    try:
        scheme = variant.build(entry.options)
        label = variant.label(scheme)
        warm_up = scheme.warm_up()
        server_nodes = scheme.server_count() if scheme.has_server and scheme.dedicated_servers() else 0
    except ValidationError as error:
        raise _EntryError(*spoken(error, variant.scheme, path, ("name", *_OWN))) from error
    except Exception as error:  # a scheme file may raise anything
        raise _EntryError(Fault(path, f"cannot be made: {type(error).__name__}: {error}")) from error
    if mistyped := list(_mistyped(entry, scheme, path)):
        raise _EntryError(*mistyped)
    return Chosen(entry, scheme, label, path, warm_up, server_nodes)


def _mistyped(entry: SchemeEntry, scheme: Scheme, path: KeyPath) -> Iterator[Fault]:
    """Options that pydantic turned into numbers, though nobody wrote a number."""
    for key, given in entry.options.items():
        got = getattr(scheme, key, None)
        is_number = isinstance(got, (int, float)) and not isinstance(got, bool)
        if is_number and (isinstance(given, bool) or (isinstance(given, str) and _is_numeral(given))):
            yield Fault((*path, key), f"must be a number, it is {quote(given)}")
        elif isinstance(got, bool) and not isinstance(given, bool):
            yield Fault((*path, key), f"must be true or false, it is {quote(given)}")


def _is_numeral(text: str) -> bool:
    """Whether this is a bare number in quotes; one with a unit may well be meant."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _repeated(chosen: list[Chosen]) -> list[Fault]:
    """Schemes that results could not tell apart."""
    first: dict[str, Chosen] = {}
    faults = []
    for one in chosen:
        if one.label in first:
            message = f"must differ from the schemes before it, {one.label!r} is there already"
            faults.append(Fault((*one.path, "name"), message))
        first.setdefault(one.label, one)
    return faults
