"""The resolved scenario: every setting, its value in SI, how a person says it, and where it came from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel

from pssim.scenario.locate import KeyPath
from pssim.scenario.origin import Origin, dotted
from pssim.scenario.schema import Part, Scenario, SchemeEntry
from pssim.units import format_bytes, format_bytes_per_s, format_flops_per_s, format_seconds

if TYPE_CHECKING:
    from pssim.scenario.loading import Loaded

__all__ = ["Row", "explain_rows", "resolved", "setting_sources"]


class Row(NamedTuple):
    """One setting of a resolved scenario."""

    key: str
    value: object
    text: str
    source: str


class _Setting(NamedTuple):
    """One setting by the path of its key, and the name of the attribute that holds it."""

    path: KeyPath
    attribute: str
    value: Any


# What it means that an optional setting is not there; one that is not listed is not worth a row.
_ABSENT = {
    "workload.device": "the machine the profile was measured on",
    "workload.bucket_cap": "1 MiB, then 25 MiB, as PyTorch DDP",
    "workload.update": "measured with the profile",
    "cluster.cores_per_node": "not checked",
    "cluster.nodes_available": "not checked",
}


def explain_rows(loaded: Loaded) -> list[Row]:
    """Every setting of a scenario in the order of the schema, then what its files and sizes come to.

    Raise ProfileError if the profile or the device cannot be read.
    """
    rows = []
    for setting in _settings(loaded.scenario):
        key = dotted(setting.path)
        source = loaded.sources[key]
        if setting.value is not None:
            rows.append(Row(key, setting.value, _say(setting.attribute, setting.value), source))
        elif key in _ABSENT:
            text, source = _ABSENT[key], source
            if key == "workload.update":
                text, source = _update(loaded)
            rows.append(Row(key, None, text, source))
    return rows + list(_from_files(loaded)) + list(_from_sizes(loaded.scenario))


def resolved(loaded: Loaded) -> dict[str, Any]:
    """The scenario as plain values in SI, units in the keys, with every default and option filled in."""
    scenario = loaded.scenario
    values: dict[str, Any] = {"name": loaded.name}
    values |= scenario.model_dump(mode="json", exclude={"schemes"})
    values["schemes"] = [
        {
            "label": entry.label,
            "name": entry.name,
            "steps": scenario.steps_of(entry),
            "replications": scenario.replications_of(entry),
            "options": entry.build().model_dump(mode="json"),
        }
        for entry in scenario.schemes
    ]
    values["sizes"] = [
        {"nodes": size.nodes, "ranks": size.ranks, "cores": size.cores} for size in scenario.sizes
    ]
    return values


def setting_sources(origin: Origin, scenario: Scenario) -> dict[str, str]:
    """Where each setting came from, by its dotted key."""
    presets = [dict(entry.variant.presets) for entry in scenario.schemes]
    sources = {}
    for path, _, _ in _settings(scenario):
        source = origin.source(path)
        if path[0] == "scheme" and source == "default":
            position = int(path[1])
            if path[2] in ("steps", "replications"):
                source = origin.source(("training", path[2]))
            elif path[2] in presets[position]:
                source = f"scheme {scenario.schemes[position].name}"
        sources[dotted(path)] = source
    return sources


def _settings(scenario: Scenario) -> Iterator[_Setting]:
    for setting in _walk(scenario, ()):
        if setting.attribute != "schemes":
            yield setting
    for position, entry in enumerate(scenario.schemes):
        yield from _of_scheme(scenario, entry, ("scheme", position))


def _walk(part: Part, at: KeyPath) -> Iterator[_Setting]:
    for name, field in type(part).model_fields.items():
        value, path = getattr(part, name), (*at, field.alias or name)
        if isinstance(value, BaseModel):
            yield from _walk(value, path)  # type: ignore[arg-type]  # every model in a Part is one
        else:
            yield _Setting(path, name, value)


def _of_scheme(scenario: Scenario, entry: SchemeEntry, at: KeyPath) -> Iterator[_Setting]:
    yield _Setting((*at, "name"), "name", entry.name)
    yield _Setting((*at, "steps"), "steps", scenario.steps_of(entry))
    yield _Setting((*at, "replications"), "replications", scenario.replications_of(entry))
    scheme = entry.build()
    for name in type(scheme).model_fields:
        yield _Setting((*at, name), name, getattr(scheme, name))


def _say(attribute: str, value: Any) -> str:
    if attribute.endswith("_bytes_per_s"):
        return format_bytes_per_s(value)
    if attribute.endswith("_flops_per_s"):
        return format_flops_per_s(value)
    if attribute.endswith("_bytes"):
        return format_bytes(value)
    if attribute.endswith("_s") and isinstance(value, float):
        return format_seconds(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


def _update(loaded: Loaded) -> tuple[str, str]:
    """What the time of the update follows from, where it is not set."""
    workload = loaded.scenario.workload
    if workload.device is None:
        return "measured with the profile", f"profile {_stem(workload.profile)}"
    return "bytes the update touches over the device's memory bandwidth", f"device {_stem(workload.device)}"


def _from_files(loaded: Loaded) -> Iterator[Row]:
    """What the profile and the device say, as far as a person needs it to judge a result."""
    from pssim.workload.device import load_device
    from pssim.workload.profile import load_profile

    profile = load_profile(loaded.profile_path)
    source = f"profile {profile.name}"
    yield Row("profile.sample", profile.sample, profile.sample, source)
    yield Row("profile.parameters", profile.parameters, f"{profile.parameters:,}", source)
    batches = ", ".join(map(str, profile.batches))
    yield Row("profile.batches", profile.batches, batches, source)
    if loaded.device_path is None:
        return
    device = load_device(loaded.device_path)
    source = f"device {device.name}"
    yield Row("device.cores", device.cores, str(device.cores), source)
    for key, known, say in (
        ("sustained", device.sustained_flops_per_s, format_flops_per_s),
        ("memory_bandwidth", device.memory_bandwidth_bytes_per_s, format_bytes_per_s),
    ):
        text = say(known.value)
        if known.low < known.high:
            text += f" ({say(known.low)} to {say(known.high)})"
        yield Row(f"device.{key}", known.value, text, f"{source}, {known.evidence}")


def _from_sizes(scenario: Scenario) -> Iterator[Row]:
    """What the sizes come to."""
    sizes = scenario.sizes
    for key in ("nodes", "ranks", "cores"):
        values = [getattr(size, key) for size in sizes]
        yield Row(f"sizes.{key}", values, ", ".join(f"{value:,}" for value in values), "computed")
    batches = [scenario.micro_batch(size.ranks) for size in sizes]
    text = ", ".join(map(str, sorted(set(batches), reverse=True)))
    yield Row("sizes.batch_per_pass", batches, text, "computed")


def _stem(name: str) -> str:
    return Path(name).stem
