"""Finding schemes: the bundled ones, those of installed packages, those in a file; and their labels."""

from __future__ import annotations

import importlib.util
import itertools
import sys
import tomllib
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import ValidationError

import pssim.schemes  # noqa: F401  (registers the bundled ones)
from pssim.errors import SchemeError
from pssim.program import REGISTRY, Scheme, Variant

__all__ = [
    "find_variant",
    "load_scheme_file",
    "option_faults",
    "parse_label",
    "registered",
    "split_labels",
    "toml_value",
]


def registered() -> dict[str, Variant]:
    """Every known scheme by name: the bundled ones and those of installed ``pssim.schemes`` entry points."""
    from importlib.metadata import entry_points

    variants = dict(REGISTRY)
    for point in entry_points(group="pssim.schemes"):
        if point.name not in variants:
            try:
                found = point.load()
            except Exception as error:
                raise SchemeError(
                    f"scheme {point.name!r}, an entry point of an installed package, cannot be loaded from "
                    f"{point.value}: {type(error).__name__}: {error}"
                ) from error
            variants[point.name] = Variant(point.name, _checked(found, point.value))
    return dict(sorted(variants.items()))


def find_variant(name: str, base: Path | None = None) -> Variant:
    """The scheme called ``name``, or the class a ``file.py:Class`` names (relative to ``base``).

    Raise SchemeError, with near matches, if there is none.
    """
    if ".py:" in name:
        return load_scheme_file(name, base or Path.cwd())
    if name in REGISTRY:  # asking installed packages as well takes milliseconds
        return REGISTRY[name]
    variants = registered()
    if name not in variants:
        near = get_close_matches(name, variants, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise SchemeError(
            f"scheme {name!r} must be one of {', '.join(variants)}, or file.py:Class{hint}"
        )
    return variants[name]


_serial = itertools.count()
_LOADED: dict[Path, ModuleType] = {}


def load_scheme_file(text: str, base: Path) -> Variant:
    """The scheme class that ``file.py:Class`` names.  Raise SchemeError with the reason it cannot be used."""
    file, _, class_name = text.rpartition(":")
    path = (base / file).resolve()
    if not path.is_file():
        raise SchemeError(f"scheme {text!r}: there is no file {path}")
    if path not in _LOADED:
        spec = importlib.util.spec_from_file_location(f"_pssim_scheme_{next(_serial)}", path)
        if spec is None or spec.loader is None:
            raise SchemeError(f"scheme {text!r}: {path} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # annotations are resolved through it
        # The file's own @register would replace a bundled scheme of that name behind the user's back.
        before = dict(REGISTRY)
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            del sys.modules[spec.name]
            line = _line_in(error, path)
            raise SchemeError(f"{path}:{line}: {type(error).__name__}: {error}") from error
        finally:
            REGISTRY.clear()
            REGISTRY.update(before)
        _LOADED[path] = module
    found = getattr(_LOADED[path], class_name, None)
    if found is None:
        classes = [
            name for name, value in vars(_LOADED[path]).items()
            if isinstance(value, type) and issubclass(value, Scheme) and value is not Scheme
        ]
        near = get_close_matches(class_name, classes, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise SchemeError(
            f"scheme {text!r}: {path} has no class {class_name!r}, "
            f"it has {', '.join(classes) or 'no scheme'}{hint}"
        )
    # Not the path: results must not depend on where the file lies.
    return Variant(f"{path.name}:{class_name}", _checked(found, text))


def _line_in(error: BaseException, path: Path) -> int:
    """The last line of ``path`` that the error came through."""
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return error.lineno
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _checked(found: object, text: str) -> type[Scheme]:
    if not (isinstance(found, type) and issubclass(found, Scheme)):
        raise SchemeError(f"scheme {text!r} must be a class derived from pssim.Scheme, it is {found!r}")
    return found


# --------------------------------------------------------------------------------------- labels


def split_labels(text: str) -> list[str]:
    """Split at commas that are not inside brackets: ``"a,b[x=1,y=2]"`` gives ``["a", "b[x=1,y=2]"]``."""
    labels, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += {"[": 1, "]": -1}.get(character, 0)
        if character == "," and depth == 0:
            labels.append(text[start:position].strip())
            start = position + 1
    labels.append(text[start:].strip())
    return [label for label in labels if label]


def parse_label(label: str) -> tuple[str, dict[str, Any]]:
    """A label's name and options: ``"pseudo-sync[delay=2]"`` gives ``("pseudo-sync", {"delay": 2})``.

    Option values are read as TOML, else as text.  Raise SchemeError if the brackets do not close.
    """
    name, bracket, rest = label.partition("[")
    if not bracket:
        if "]" in label:
            raise SchemeError(f"scheme label {label!r}: ']' without '['")
        return label.strip(), {}
    if not rest.endswith("]"):
        raise SchemeError(f"scheme label {label!r} must end with ']'")
    options: dict[str, Any] = {}
    for item in split_labels(rest[:-1]):
        key, equals, value = item.partition("=")
        if not equals:
            raise SchemeError(f"scheme label {label!r}: {item!r} must be option=value")
        if key.strip() in ("name", "steps", "replications"):
            raise SchemeError(f"scheme label {label!r}: {key.strip()!r} is no option of a scheme")
        options[key.strip()] = toml_value(value.strip())
    return name.strip(), options


def toml_value(text: str) -> Any:
    """``text`` read as a TOML value, or as it stands where it is none."""
    try:
        found = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return found["value"] if len(found) == 1 else text


def option_faults(error: ValidationError) -> Iterable[tuple[str, str]]:
    """Each fault of a scheme's options as (option, what is wrong)."""
    for fault in error.errors():
        yield ".".join(str(part) for part in fault["loc"]) or "option", fault["msg"]
