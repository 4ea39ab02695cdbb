"""``pssim list``: what there is to run, and with what."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pssim.program import Variant
    from pssim.scenario import Loaded

__all__ = ["list_"]

_Rows = list[tuple[str, str]]

_ENGINES: _Rows = [
    ("auto", "the fastest simulating engine that supports the scheme"),
    ("events", "an event queue, a process a rank: runs everything"),
    ("vector", "all ranks at once in lock step: all-reduce schemes only, same numbers"),
    ("analytic", "closed forms: no simulation, bounds where nothing exact is known"),
]


@click.command("list")
@click.argument("what", required=False)
def list_(what: str | None) -> None:
    """List what there is to run: scenarios, schemes, profiles, devices and engines.

    WHAT narrows it down: a scenario (its sizes and schemes), or a scheme file (the schemes in it).
    """
    if what is None:
        sections = _everything()
    elif what.endswith(".py"):
        sections = iter([(f"Schemes in {what}", _schemes_in(what))])
    else:
        from pssim.scenario import load

        sections = _of_scenario(load(what))
    formatter = click.HelpFormatter()
    for title, rows in sections:
        with formatter.section(title):
            formatter.write_dl(rows or [("(none)", "")])
    click.echo(formatter.getvalue().strip("\n"))


def _everything() -> Iterator[tuple[str, _Rows]]:
    from pssim.catalogue import device_names, profile_names, scenario_names
    from pssim.registry import registered

    yield "Scenarios", [(name, _question(name)) for name in scenario_names()]
    yield "Schemes", [_scheme(variant) for variant in registered().values()]
    yield "Profiles", [(name, _profile(name)) for name in profile_names()]
    yield "Devices", [(name, _device(name)) for name in device_names()]
    yield "Engines", _ENGINES


def _question(name: str) -> str:
    from pssim.errors import PssimError
    from pssim.scenario import load

    try:
        return load(name).scenario.question
    except PssimError as error:
        return f"(cannot be used: {error})"


def _profile(name: str) -> str:
    from pssim.catalogue import find_profile
    from pssim.errors import PssimError
    from pssim.workload.profile import load_profile

    try:
        profile = load_profile(find_profile(name))
    except PssimError as error:
        return f"(cannot be used: {error})"
    batches = ", ".join(map(str, profile.batches))
    return f"{profile.parameters:,} parameters; a sample is {profile.sample}; measured at batch {batches}"


def _device(name: str) -> str:
    from pssim.catalogue import find_device
    from pssim.errors import PssimError
    from pssim.units import format_flops_per_s
    from pssim.workload.device import load_device

    try:
        device = load_device(find_device(name))
    except PssimError as error:
        return f"(cannot be used: {error})"
    sustained = device.sustained_flops_per_s
    return f"{device.description}; {format_flops_per_s(sustained.value)} sustained ({sustained.evidence})"


def _scheme(variant: Variant, *, described: bool = False) -> tuple[str, str]:
    """A scheme's name; what it is, and its options with the values they have if nothing is said.

    ``described`` adds what each option is, where its author says so.
    """
    presets = dict(variant.presets)
    options = [
        f"{key}={_value(presets.get(key, field.get_default(call_default_factory=True)))}"
        + (f" ({field.description})" if described and field.description else "")
        for key, field in variant.scheme.model_fields.items()
    ]
    summary = " ".join((variant.scheme.__doc__ or "").strip().split("\n\n")[0].split()).replace("``", "")
    return variant.name, f"{summary} Options: {', '.join(options)}." if options else summary


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "none" if value is None else str(value)


def _schemes_in(file: str) -> _Rows:
    """The scheme classes that a file defines.  Raise SchemeError if it cannot be read or run."""
    from pssim.errors import SchemeError
    from pssim.program import Scheme
    from pssim.registry import load_scheme_file

    path = Path(file)
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SchemeError(f"{file}: cannot be read: {error.strerror or error}") from error
    except (ValueError, SyntaxError) as error:
        line = getattr(error, "lineno", None) or 1
        raise SchemeError(f"{file}:{line}: {type(error).__name__}: {error}") from error
    rows = []
    for node in tree.body:
        if not isinstance(node, ast.ClassDef):
            continue
        try:
            variant = load_scheme_file(f"{file}:{node.name}", Path.cwd())
        except SchemeError as error:
            # A helper class is no fault of the file; whatever broke while it ran is.
            if error.__cause__ is not None:
                raise
            continue
        if variant.scheme is not Scheme:
            rows.append(_scheme(variant, described=True))  # which `pssim explain` does not know of
    return rows


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _of_scenario(loaded: Loaded) -> Iterator[tuple[str, _Rows]]:
    scenario = loaded.scenario
    yield "Scenario", [(loaded.name, scenario.question), ("", str(loaded.path))]
    yield (
        "Sizes",
        [
            (_count(size.nodes, "node"), f"{_count(size.ranks, 'rank')}, {_count(size.cores, 'core')}")
            for size in scenario.sizes
        ],
    )
    yield (
        "Schemes",
        [
            (
                entry.label,
                f"{_count(scenario.steps_of(entry), 'step')}, "
                f"{_count(scenario.replications_of(entry), 'replication')}",
            )
            for entry in scenario.schemes
        ],
    )
