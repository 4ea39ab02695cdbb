"""A loaded scenario as a file that can be run again, with every setting and nothing left to be looked up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

from pssim.catalogue import device_names, profile_names
from pssim.scenario.loading import Loaded
from pssim.scenario.schema import Link, SchemeEntry
from pssim.units import format_bytes, format_bytes_per_s, format_seconds

__all__ = ["to_toml"]


def to_toml(loaded: Loaded) -> str:
    """The scenario as TOML: loading it gives an equal scenario, from whatever folder.

    Files of the user's are named by their absolute paths.
    """
    scenario = loaded.scenario
    workload, cluster, training = scenario.workload, scenario.cluster, scenario.training
    bucket_cap = None if workload.bucket_cap_bytes is None else format_bytes(workload.bucket_cap_bytes)
    tables: dict[str, dict[str, Any]] = {
        "workload": {
            "profile": _named(workload.profile, loaded.profile_path, profile_names()),
            "device": _named(workload.device, loaded.device_path, device_names()),
            "bucket_cap": bucket_cap,
            "gradient_dtype": workload.gradient_dtype,
            "accumulation_steps": workload.accumulation_steps,
            "update": None if workload.update_s is None else format_seconds(workload.update_s),
        },
        "cluster": {
            "ranks_per_node": cluster.ranks_per_node,
            "cores_per_rank": cluster.cores_per_rank,
            "cores_per_node": cluster.cores_per_node,
            "nodes_available": cluster.nodes_available,
            "link": _link(cluster.link),
            "local_link": _link(cluster.local_link),
            "collective": cluster.collective,
            "channel": cluster.channel.model_dump(),
            "jitter": cluster.jitter.model_dump(),
        },
        "training": training.model_dump(),
    }
    lines = [f"question = {_value(scenario.question)}"]
    for name, table in tables.items():
        lines += ["", f"[{name}]", *_pairs(table)]
    for entry in scenario.schemes:
        lines += ["", "[[scheme]]", *_pairs(_scheme(entry))]
    return "\n".join(lines) + "\n"


def _scheme(entry: SchemeEntry) -> dict[str, Any]:
    name = entry.name
    if ".py:" in name and entry.base is not None:
        name = str(entry.base / name)
    return {"name": name, "steps": entry.steps, "replications": entry.replications, **entry.options}


def _named(name: str | None, path: Path | None, bundled: list[str]) -> str | None:
    return name if name is None or path is None or name in bundled else str(path.absolute())


def _link(link: Link | None) -> dict[str, str] | None:
    if link is None:
        return None
    return {
        "latency": format_seconds(link.latency_s),
        "bandwidth": format_bytes_per_s(link.bandwidth_bytes_per_s),
    }


def _pairs(table: dict[str, Any]) -> Iterator[str]:
    for key, value in table.items():
        if value is not None:
            yield f"{_key(key)} = {_value(value)}"


def _key(key: str) -> str:
    return key if key.replace("-", "_").isidentifier() and key.isascii() else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # A JSON string is a TOML string, but for one character that TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (date, time, datetime)):
        return value.isoformat()
    if isinstance(value, dict):
        inner = ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items())
        return f"{{ {inner} }}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    return repr(value)
