"""The JSON schema of scenario files, for editors that complete and check what is typed."""

from __future__ import annotations

import json
from typing import Any

from pssim.program import Variant
from pssim.registry import registered
from pssim.scenario.schema import Scenario

__all__ = ["json_schema", "schema_text"]


def json_schema() -> dict[str, Any]:
    """The schema of a scenario, with the options of each bundled scheme spelt out.

    It cannot say what only pssim can check: how settings fit together, and whether files exist.
    """
    schema = Scenario.model_json_schema(by_alias=True)
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "pssim scenario"}
    variants = [
        variant for variant in registered().values() if variant.scheme.__module__.startswith("pssim.")
    ]
    entry = schema["$defs"]["SchemeEntry"]
    common = {key: entry["properties"][key] for key in ("name", "steps", "replications")}
    schema["$defs"]["SchemeEntry"] = {
        "title": "SchemeEntry",
        "description": entry["description"],
        "anyOf": [*(_of_variant(variant, common) for variant in variants), _of_others(variants, common)],
    }
    _tidy(schema)
    return schema


def schema_text() -> str:
    """The schema as it is published: two spaces of indentation, and a line end."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def _of_variant(variant: Variant, common: dict[str, Any]) -> dict[str, Any]:
    """An entry that names a bundled scheme: its options, with the defaults its name stands for."""
    options = variant.scheme.model_json_schema()
    properties = {key: dict(value) for key, value in options.get("properties", {}).items()}
    for key, preset in variant.presets:
        properties[key]["default"] = preset
    return {
        "type": "object",
        "properties": {**common, "name": {"const": variant.name}, **properties},
        "required": ["name"],
        "additionalProperties": False,
    }


def _of_others(variants: list[Variant], common: dict[str, Any]) -> dict[str, Any]:
    """An entry that names a scheme in a file or in another package: its options are not known here."""
    name = {**common["name"], "not": {"enum": [variant.name for variant in variants]}}
    return {"type": "object", "properties": {**common, "name": name}, "required": ["name"]}


def _tidy(schema: Any) -> None:
    """Take out the titles pydantic makes up from attribute names; they say less than the keys."""
    if isinstance(schema, list):
        for item in schema:
            _tidy(item)
    elif isinstance(schema, dict):
        for key, value in schema.items():
            if key == "properties":
                for each in value.values():
                    each.pop("title", None)
            _tidy(value)
