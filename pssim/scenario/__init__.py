"""Scenarios: what people write, checked as a whole, in SI, with the place each setting came from."""

from pssim.scenario.explain import Row, explain_rows, resolved
from pssim.scenario.loading import ENGINES, Loaded, load
from pssim.scenario.published import json_schema, schema_text
from pssim.scenario.schema import Scenario, SchemeEntry, Size
from pssim.scenario.write import to_toml

__all__ = [
    "ENGINES",
    "Loaded",
    "Row",
    "Scenario",
    "SchemeEntry",
    "Size",
    "explain_rows",
    "json_schema",
    "load",
    "resolved",
    "schema_text",
    "to_toml",
]
