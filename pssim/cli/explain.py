"""``pssim explain``: what a column of a result, or a setting of a scenario, means."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

import click

__all__ = ["explain"]

_WIDTH = 100


@click.command()
@click.argument("key", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def explain(key: str | None, as_json: bool) -> None:
    """Say what KEY means: a column of a result (efficiency) or a setting of a scenario (cluster.link).

    Without KEY, list all columns and settings.
    """
    from pssim.report.result import json_text

    entries = _entries() if key is None else _found(key)
    if as_json:
        click.echo(json_text(entries), nl=False)
    elif key is None:
        _print_list(entries)
    else:
        click.echo("\n\n".join(map(_spelled, entries)))


def _entries() -> list[dict[str, str]]:
    """Everything that can be explained, as flat texts; columns first."""
    from pssim.results import COLUMNS

    columns = [
        {
            "key": column.name,
            "kind": "column",
            "unit": column.unit,
            "definition": column.definition,
            "formula": column.formula,
        }
        for column in COLUMNS.values()
    ]
    return columns + list(_settings())


def _settings() -> Iterator[dict[str, str]]:
    """The settings of a scenario file, from its schema, and the options of the schemes."""
    from pssim.scenario import Scenario

    schema = Scenario.model_json_schema()
    for entry in _walk(schema, schema.get("$defs", {}), ""):
        if entry["key"] == "scheme.options":  # which are written as keys of the scheme itself
            yield from _options()
        else:
            yield entry


def _options() -> Iterator[dict[str, str]]:
    """The options of all schemes, each with what the schemes' names stand for."""
    from pssim.registry import registered

    schemes = {variant.scheme: variant.scheme.model_json_schema() for variant in registered().values()}
    for scheme, schema in schemes.items():
        variants = [variant for variant in registered().values() if variant.scheme is scheme]
        for name, told in schema.get("properties", {}).items():
            default = told.get("default")
            defaults = {variant.name: dict(variant.presets).get(name, default) for variant in variants}
            yield {
                "key": f"scheme.{name}",
                "kind": "setting",
                "definition": told.get("description", f"option of {', '.join(defaults)}"),
                "values": _values(told, schema.get("$defs", {})),
                "default": ", ".join(f"{_plain(value)} for {label}" for label, value in defaults.items()),
            }


def _walk(part: dict[str, Any], known: dict[str, Any], prefix: str) -> Iterator[dict[str, str]]:
    for name, told in part.get("properties", {}).items():
        key = f"{prefix}{name}"
        yield {
            "key": key,
            "kind": "setting",
            "definition": told.get("description", ""),
            "values": _values(told, known),
            "default": _default(told, required=name in part.get("required", [])),
        }
        inner = _model(told, known)
        if inner:
            yield from _walk(inner, known, f"{key}.")


def _model(told: dict[str, Any], known: dict[str, Any]) -> dict[str, Any] | None:
    """The table a setting holds, if it holds one (or an array of them)."""
    for choice in (told, told.get("items", {}), *told.get("anyOf", ())):
        if "$ref" in choice:
            found: dict[str, Any] = known[choice["$ref"].rpartition("/")[2]]
            return found if "properties" in found else None
    return None


def _values(told: dict[str, Any], known: dict[str, Any]) -> str:
    """What may be written there."""
    if _model(told, known):
        return "array of tables" if told.get("type") == "array" else "table"
    choices = [choice for choice in told.get("anyOf", [told]) if choice.get("type") != "null"]
    return " or ".join(_value(choice) for choice in choices)


def _value(told: dict[str, Any]) -> str:
    if "enum" in told:
        return ", ".join(map(str, told["enum"]))
    if told.get("examples"):
        return f"text such as {' or '.join(map(repr, told['examples']))}"
    signs = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    limits = [f"{sign} {told[name]:,}" for name, sign in signs.items() if name in told]
    kind = {"string": "text", "number": "number", "integer": "whole number", "boolean": "true or false"}
    if told.get("type") == "array":
        return f"array, each a {_value(told.get('items', {}))}"
    return " ".join([kind.get(str(told.get("type")), str(told.get("type", ""))), ", ".join(limits)]).strip()


def _default(told: dict[str, Any], *, required: bool) -> str:
    if required:
        return "none, must be given"
    default = told.get("default")
    return "as its settings say" if isinstance(default, dict) else _plain(default)


def _plain(value: object) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _found(key: str) -> list[dict[str, str]]:
    """Whatever is called so: a column, and settings that end in the key.  Raise InputError if nothing is."""
    from difflib import get_close_matches

    from pssim.errors import InputError

    entries = _entries()
    wanted = ".".join(part for part in key.split(".") if not part.isdigit())  # as in scheme.0.delay
    found = [entry for entry in entries if wanted in _names(entry)]
    if found:
        return found
    names = dict.fromkeys(name for entry in entries for name in _names(entry))
    near = get_close_matches(key, names, n=3)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    raise InputError(f"no column or setting is called {key!r}{hint} (pssim explain lists all)")


def _names(entry: dict[str, str]) -> tuple[str, str]:
    """The whole key, and its last part, by which people know it."""
    return entry["key"], entry["key"].rpartition(".")[2]


def _spelled(entry: dict[str, str]) -> str:
    unit = entry.get("unit", "")
    head = f"{entry['key']}  [{unit}]" if unit not in ("", "1") else entry["key"]
    lines = [head]
    lines += textwrap.wrap(entry["definition"], _WIDTH, initial_indent="  ", subsequent_indent="  ")
    for name in ("formula", "values", "default"):
        if entry.get(name):
            label = f"  {name}: "
            below = " " * len(label)
            lines += textwrap.wrap(entry[name], _WIDTH, initial_indent=label, subsequent_indent=below)
    return "\n".join(lines)


def _print_list(entries: list[dict[str, str]]) -> None:
    for kind, title in (("column", "Columns of a result"), ("setting", "Settings of a scenario")):
        chosen = [entry for entry in entries if entry["kind"] == kind]
        width = max(len(entry["key"]) for entry in chosen)
        click.echo(f"{title}:")
        for entry in chosen:
            first = entry["definition"].partition(". ")[0].removesuffix(".")
            room = _WIDTH + 10 - width - 4
            click.echo(f"  {entry['key']:{width}}  {textwrap.shorten(first, room, placeholder=' ...')}")
        click.echo()
