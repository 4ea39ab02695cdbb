"""``pssim run``: simulate a scenario, print its table, write its run directory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pssim.report.result import Result
    from pssim.scenario import Loaded

__all__ = ["run"]

_INTERRUPTED = 130


@click.command()
@click.argument("scenario")
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE",
    help="Override a setting, such as cluster.link.latency='2 us'; may be repeated.",
)
@click.option(
    "--scheme", "schemes", metavar="A,B",
    help="Schemes to run instead of the scenario's: names, labels like pseudo-sync[delay=2], file.py:Class.",
)
@click.option(
    "--engine", default="auto", show_default=True,
    type=click.Choice(["auto", "events", "vector", "analytic"]),
    help="What computes the steps; auto takes the fastest simulating engine that supports the scheme.",
)
@click.option("--replications", type=click.IntRange(min=1), help="Replications of every scheme.")
@click.option("--seed", type=click.IntRange(min=0), help="The number all random numbers derive from.")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR",
    help="Run directory, new or empty.  [default: runs/SCENARIO-DATE-TIME, or none with --json]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: scenario, manifest, rows.")
@click.option(
    "--explain", is_flag=True, help="Show every setting in SI units and where it comes from; run nothing."
)
@click.option("--no-plots", is_flag=True, help="Leave PNG and SVG out of the run directory.")
def run(
    scenario: str,
    overrides: tuple[str, ...],
    schemes: str | None,
    engine: str,
    replications: int | None,
    seed: int | None,
    out: Path | None,
    as_json: bool,
    explain: bool,
    no_plots: bool,
) -> None:
    """Predict step time, throughput and efficiency of the schemes of SCENARIO, a name or a .toml file.

    Prints a row per scheme and size, and what binds at the largest size.  All columns are in results.csv
    in the run directory; `pssim explain` says what they mean.  Ctrl-C keeps what is finished.
    """
    from pssim.scenario import load

    loaded = load(
        scenario, overrides=overrides, schemes=schemes, replications=replications, seed=seed, engine=engine
    )
    if explain:
        _explain(loaded, as_json=as_json)
        return
    write = out is not None or not as_json
    result, directory = _simulate(loaded, engine=engine, out=out, plots=not no_plots, write=write)
    if as_json:
        click.echo(result.as_json(), nl=False)
    else:
        _print(result, directory)
    if result.interrupted:
        raise SystemExit(_INTERRUPTED)


def _simulate(
    loaded: Loaded, *, engine: str, out: Path | None, plots: bool, write: bool
) -> tuple[Result, Path | None]:
    """Run, and write the run directory; whether it can be written is known before anything is simulated."""
    from datetime import datetime

    from pssim.api import RunInterrupted
    from pssim.api import run as run_scenario
    from pssim.cli.progress import ProgressLine
    from pssim.report.directory import check_directory, default_directory

    started = datetime.now()

    def target() -> Path:
        return default_directory(loaded.name, started) if out is None else out

    if write:
        check_directory(target())
    try:
        with ProgressLine() as progress:
            result = run_scenario(loaded, engine=engine, progress=progress)
    except RunInterrupted as interruption:
        result = interruption.result
        if not result.rows:
            click.echo("interrupted before anything was finished; nothing was written", err=True)
            raise SystemExit(_INTERRUPTED) from None
        click.echo("interrupted; keeping what is finished", err=True)
    return result, result.write(target(), plots=plots) if write else None


def _explain(loaded: Loaded, *, as_json: bool) -> None:
    """Every setting: its key, how a person says it, its value in SI, and where it comes from."""
    from pssim.report.result import json_text
    from pssim.scenario import explain_rows, resolved

    rows = explain_rows(loaded)
    if as_json:
        whole = {"scenario": resolved(loaded), "settings": [row._asdict() for row in rows]}
        click.echo(json_text({**whole, "warnings": list(loaded.warnings)}), nl=False)
        return
    cells = [("setting", "value", "in SI units", "from")]
    for row in rows:
        exact = repr(row.value) if type(row.value) in (int, float) else ""
        cells.append((row.key, row.text, exact if exact != row.text.replace(",", "") else "", row.source))
    widths = [max(len(cell[column]) for cell in cells if len(cell[column]) <= 48) for column in range(4)]
    for cell in cells:
        line = "  ".join(text.ljust(width) for text, width in zip(cell, widths, strict=True))
        click.echo(line.rstrip())
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}")


def _print(result: Result, directory: Path | None) -> None:
    """The report; tables as wide as the terminal, and no colours where there is none."""
    from rich.console import Console
    from rich.text import Text

    from pssim.report.text import rich_table, table_text

    console = Console(highlight=False)
    if console.is_terminal:
        console.print(rich_table(result.rows, width=console.width))
    else:
        click.echo(table_text(result.rows), nl=False)
    console.print()

    def say(text: str, style: str = "") -> None:
        console.print(Text(text, style=style), soft_wrap=not console.is_terminal)

    if result.binding:
        say(result.binding, "bold")
    for warning in result.warnings:
        say(f"warning: {warning}", "yellow")
    for note in result.notes:
        say(f"note: {note}", "dim")
    if directory is not None:
        say(f"written to {_nearest(directory)}")


def _nearest(directory: Path) -> Path:
    """The directory as seen from here, if it is below."""
    here = Path.cwd()
    return directory.relative_to(here) if directory.is_relative_to(here) else directory
