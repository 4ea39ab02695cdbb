"""Settings from the command line, laid over those of the file before anything is checked."""

from __future__ import annotations

import tomllib
from typing import Any

from pssim.scenario.faults import Fault
from pssim.scenario.locate import KeyPath
from pssim.scenario.origin import Mark, Origin
from pssim.units import quote

__all__ = ["put", "set_option"]

# Of each pair a scenario has one; setting the other on the command line takes its place.
_INSTEAD = {
    "nodes": "ranks",
    "ranks": "nodes",
    "batch_per_rank": "global_batch",
    "global_batch": "batch_per_rank",
}


def set_option(origin: Origin, text: str) -> list[Fault]:
    """Lay ``key=value`` of one ``--set`` over the settings; give what is wrong with it.

    The key is dotted, with positions in arrays from 0 (``scheme.0.delay``).  The value is read as
    TOML, else as text.  An empty value takes the setting out, so that its default holds.
    """
    key, equals, value = text.partition("=")
    keys = [part.strip() for part in key.split(".")]
    if not equals or not all(keys):
        return [Fault((), f"must be key=value, such as training.steps=50, it is {quote(text)}", "--set")]
    path, around = _resolve(origin.raw, keys)
    if isinstance(around, str):
        return [Fault(path, around, "--set")]
    put(origin, path, _read(value.strip()) if value.strip() else None, "--set")
    return []


def put(origin: Origin, path: KeyPath, value: object, option: str) -> None:
    """Set one setting to ``value`` in the name of ``option``, or take it out if that is None."""
    around: Any = origin.raw
    for depth, key in enumerate(path[:-1], 1):
        if isinstance(around, dict) and key not in around:
            around[key] = {}
            origin.marks[path[:depth]] = Mark(option=option)
        if not _has_place_for(around, key):
            return
        around = around[key]
    last = path[-1]
    if not _has_place_for(around, last):
        return  # the section is no table, which is a fault of its own
    origin.forget(path)
    if value is None:
        if isinstance(around, dict):
            around.pop(last, None)
        return
    around[last] = value
    origin.marks[path] = Mark(option=option)
    other = _INSTEAD.get(str(last)) if path[:-1] == ("training",) else None
    if other is not None and not origin.marks.get(("training", other), Mark()).option:
        around.pop(other, None)
        origin.forget(("training", other))


def _has_place_for(around: object, key: str | int) -> bool:
    return isinstance(around, list) if isinstance(key, int) else isinstance(around, dict)


def _resolve(raw: dict[str, Any], keys: list[str]) -> tuple[KeyPath, object]:
    """The path that ``keys`` mean, and either the value around the last of them or what is wrong."""
    path: KeyPath = ()
    around: object = raw
    for position, key in enumerate(keys):
        if isinstance(around, list):
            if not key.isascii() or not key.isdigit() or int(key[:9]) >= len(around):
                return (*path, key), f"must be a position from 0 to {len(around) - 1}, it is {quote(key)}"
            path = (*path, int(key))
        elif isinstance(around, dict):
            path = (*path, key)
        else:
            return path, f"must be a table to have a {quote(key)} in it, it is {quote(around)}"
        if position == len(keys) - 1:
            return path, around
        around = around[int(key)] if isinstance(around, list) else around.get(key, {})
    return path, around


def _read(text: str) -> object:
    try:
        document = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return document["value"] if len(document) == 1 else text
