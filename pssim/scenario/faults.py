"""What is wrong with a scenario, said the way a person wants to hear it: all of it, each with its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from pssim.errors import ScenarioError
from pssim.scenario.locate import KeyPath
from pssim.scenario.origin import Origin, dotted
from pssim.scenario.schema import Scenario
from pssim.units import quote

__all__ = ["Fault", "near", "scenario_error", "spoken"]

# More would scroll the first ones away.
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong: which setting, and what it must be and is."""

    path: KeyPath
    message: str
    option: str = ""
    """The option of the command line it is about, where it is about no setting."""


def scenario_error(faults: Iterable[Fault], origin: Origin) -> ScenarioError:
    """All faults, one a line, in the order of the file; those of the command line last."""

    def order(fault: Fault) -> tuple[bool, int]:
        mark = origin.mark(fault.path)
        return bool(fault.option or mark.option), mark.line

    def line(fault: Fault) -> str:
        place = fault.option or origin.place(fault.path)
        return ": ".join(filter(None, (place, dotted(fault.path), fault.message)))

    faults = sorted(faults, key=order)
    lines = [line(fault) for fault in faults[:_SHOWN]]
    if len(faults) > _SHOWN:
        lines.append(f"... and {len(faults) - _SHOWN} more")
    return ScenarioError("\n".join(lines))


def near(word: object, words: Iterable[str]) -> str:
    """A hint at the word that was probably meant, or nothing."""
    found = get_close_matches(str(word), list(words), n=1)
    return f"; did you mean {found[0]!r}?" if found else ""


def spoken(
    error: ValidationError, model: type[BaseModel], at: KeyPath = (), also: tuple[str, ...] = ()
) -> Iterator[Fault]:
    """pydantic's findings about ``model``, which stands at ``at``, in our words.

    ``also`` names further keys that would have been right there.
    """
    tables = {**_scenario_tables(), **dict(_tables(model, at))}
    tables[at] = (*tables[at], *also)
    for found in error.errors(include_url=False):
        if found["type"] == "too_short" and found["input"]:
            continue  # it counts the good entries only, and the bad ones have faults of their own
        path = (*at, *found["loc"])
        yield Fault(path, _message(found, path, tables, model))


def _message(
    found: ErrorDetails, path: KeyPath, tables: dict[KeyPath, tuple[str, ...]], model: type[BaseModel]
) -> str:
    kind, context, value = found["type"], found.get("ctx", {}), found["input"]
    if kind == "missing":
        return f"must be given{_described(model, found['loc'])}"
    if kind == "extra_forbidden":
        return _unknown_key(path, tables)
    if kind in ("value_error", "assertion_error"):
        return str(context["error"])
    must = {
        "int_type": "a whole number",
        "int_from_float": "a whole number",
        "int_parsing": "a whole number",
        "float_type": "a number",
        "float_parsing": "a number",
        "finite_number": "a number that is finite",
        "bool_type": "true or false",
        "bool_parsing": "true or false",
        "string_type": "text in quotes",
        "string_too_short": "text that is not empty",
        "model_type": "a table",
        "model_attributes_type": "a table",
        "dict_type": "a table",
        "tuple_type": "a list",
        "list_type": "a list",
        "too_short": "a list that is not empty",
        "greater_than": f"greater than {_short(context.get('gt'))}",
        "greater_than_equal": f"{_short(context.get('ge'))} or more",
        "less_than": f"less than {_short(context.get('lt'))}",
        "less_than_equal": f"{_short(context.get('le'))} or less",
        "literal_error": f"{context.get('expected')}",
        "enum": f"{context.get('expected')}",
    }.get(kind)
    if must is None:
        return f"{found['msg'].replace('Input should be', 'must be', 1)}, it is {quote(value)}"
    hint = ""
    if kind in ("literal_error", "enum"):
        hint = near(
            value, str(context.get("expected", "")).replace("'", "").replace(" or ", ", ").split(", ")
        )
    elif kind == "tuple_type" and isinstance(value, int) and not isinstance(value, bool):
        hint = f"; did you mean [{value}]?"
    return f"must be {must}, it is {quote(value)}{hint}"


def _short(bound: object) -> str:
    """A bound without the decimals that say nothing."""
    return str(int(bound)) if isinstance(bound, float) and bound.is_integer() else str(bound)


def _unknown_key(path: KeyPath, tables: dict[KeyPath, tuple[str, ...]]) -> str:
    """An unknown key: its neighbours first, then the same or a similar name in other tables."""
    key = str(path[-1])
    here = tables.get(path[:-1], ())
    hint = near(key, here)
    if not hint:
        elsewhere = [
            dotted((*table, name)) for table, names in tables.items() for name in names if name == key
        ]
        hint = f"; did you mean '{elsewhere[0]}'?" if elsewhere else f"; there are {', '.join(here)}"
    return f"is not a known setting{hint}"


def _described(model: type[BaseModel], loc: tuple[int | str, ...]) -> str:
    """What the missing setting is for."""
    found: type[BaseModel] | None = model
    description = ""
    for key in loc:
        named = {field.alias or name: field for name, field in found.model_fields.items()} if found else {}
        field = named.get(str(key))
        if field is None:
            return ""
        description = field.description or ""
        found = _model_in(field.annotation)
    return f": {description}" if description else ""


@cache
def _scenario_tables() -> dict[KeyPath, tuple[str, ...]]:
    return dict(_tables(Scenario, ()))


def _tables(model: type[BaseModel], at: KeyPath) -> Iterator[tuple[KeyPath, tuple[str, ...]]]:
    """Every table of the model and the keys it has."""
    yield at, tuple(field.alias or name for name, field in model.model_fields.items())
    for name, field in model.model_fields.items():
        inner = _model_in(field.annotation)
        if inner is not None:
            yield from _tables(inner, (*at, field.alias or name))


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model an annotation such as ``Link | None`` holds, if it is one."""
    for choice in (annotation, *get_args(annotation)):
        if isinstance(choice, type) and issubclass(choice, BaseModel):
            return choice
    return None
