"""Measured files, JSON and TOML, into frozen models: each fault an error that names file and key."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from pssim.errors import ProfileError

__all__ = ["FileModel", "read_json", "read_toml"]

_SHOWN = 10  # faults of one file that are listed; the rest is only counted


class FileModel(BaseModel):
    """A frozen piece of a file: unknown, missing, non-finite and wrongly typed values are all faults."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


M = TypeVar("M", bound=FileModel)


def read_json(model: type[M], path: Path, kind: str) -> M:
    """The JSON file at ``path`` as ``model``.  Raise ProfileError, with all faults, if it is not one."""
    try:
        return model.model_validate_json(_text(path, kind))
    except ValidationError as error:
        raise ProfileError(_explain(error, model, path, kind)) from error


def read_toml(model: type[M], path: Path, kind: str) -> M:
    """The TOML file at ``path`` as ``model``.  Raise ProfileError, with all faults, if it is not one."""
    text = _text(path, kind)
    try:
        return model.model_validate(tomllib.loads(text))
    except ValidationError as error:
        raise ProfileError(_explain(error, model, path, kind)) from error
    except (ValueError, RecursionError) as error:
        raise ProfileError(f"{path}: this {kind} is not valid TOML: {error}") from error


def _text(path: Path, kind: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ProfileError(f"{path}: this {kind} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise ProfileError(f"{path}: this {kind} must be UTF-8 text: {error}") from error


def _explain(error: ValidationError, model: type[BaseModel], path: Path, kind: str) -> str:
    faults = list(_faults(error, model))
    shown = faults[:_SHOWN]
    if len(faults) > _SHOWN:
        shown.append(f"and {len(faults) - _SHOWN} more")
    return f"{path}: this {kind} cannot be used: " + "; ".join(shown)


def _faults(error: ValidationError, model: type[BaseModel]) -> Iterator[str]:
    """Each fault as one clause, the place in the file first."""
    for fault in error.errors(include_url=False):
        where = "".join(f"{part}: " for part in [".".join(map(str, fault["loc"]))] if part)
        if fault["type"] == "json_invalid":
            yield f"it is not valid JSON: {fault['ctx']['error']}"
        elif fault["type"] == "missing":
            yield f"{where}missing"
        elif fault["type"] == "extra_forbidden":
            key = str(fault["loc"][-1])  # which may be a right one in the wrong place
            near = get_close_matches(key, [known for known in _keys(model) if known != key], n=1)
            yield f"{where}unknown key" + (f", did you mean {near[0]!r}?" if near else "")
        elif fault["type"] == "value_error":
            yield f"{where}{fault['ctx']['error']}"
        else:
            yield f"{where}{fault['msg']}, it is {_short(fault['input'])}"


def _keys(model: type[BaseModel]) -> list[str]:
    """Every key that may stand anywhere in a file of this model, for near matches."""
    schema = model.model_json_schema()
    parts = (schema, *schema.get("$defs", {}).values())
    return [name for part in parts for name in part.get("properties", {})]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
