"""The result of a run: its table, its plots, its manifest, and the run directory they are written to."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pssim.report.binds import binding_line
from pssim.report.directory import write_directory
from pssim.report.plots import breakdown_figure, efficiency_figure, image_bytes
from pssim.report.text import WIDTH, table_text
from pssim.results.rows import PointLike, Row, rows_of
from pssim.results.table import csv_text, table_of
from pssim.scenario import Loaded, resolved, to_toml

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["Result", "json_text"]

_CUT_SHORT = "interrupted: what was not finished is missing, and the last rows may have fewer replications"


class _NotedPoint(PointLike, Protocol):
    @property
    def notes(self) -> Sequence[str]: ...


@dataclass(frozen=True)
class Result:
    """What a scenario gave.

    ``rows`` holds a dict for each scheme and size, ``table`` the same as a DataFrame; the columns are
    those of ``pssim explain``.  ``notes`` say what the numbers rest on, ``warnings`` what is wrong with
    them.  ``interrupted`` results hold the points that were finished.
    """

    loaded: Loaded
    rows: list[Row]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    manifest: dict[str, Any]

    @classmethod
    def from_points(
        cls, loaded: Loaded, points: Iterable[_NotedPoint], manifest: Mapping[str, Any]
    ) -> Result:
        """The result of these points; engines, warnings and notes are added to the manifest.

        Points are taken one at a time and not kept, so an iterator of points needs memory for one.
        """
        notes: dict[str, None] = {}

        def noted() -> Iterator[PointLike]:
            for point in points:
                notes.update(dict.fromkeys(point.notes))
                yield point

        rows = rows_of(noted())
        cut = (_CUT_SHORT,) if manifest.get("interrupted") else ()
        warnings = (*loaded.warnings, *_warnings(rows), *cut)
        whole = {
            **manifest,
            "engines": [{name: row[name] for name in ("scheme", "nodes", "ranks", "engine")} for row in rows],
            "warnings": list(warnings),
            "notes": list(notes),
        }
        return cls(loaded, rows, tuple(notes), warnings, whole)

    @property
    def question(self) -> str:
        """The question the scenario asks."""
        return self.loaded.scenario.question

    @property
    def interrupted(self) -> bool:
        """Whether the run was cut short, so that some points are missing."""
        return bool(self.manifest.get("interrupted", False))

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per scheme and size; units are in the column names, ratios are fractions."""
        return table_of(self.rows)

    @property
    def binding(self) -> str:
        """One line on what the steps consist of at the largest size."""
        return binding_line(self.rows)

    def plot_efficiency(self) -> Figure:
        """Scaling efficiency against size, with a confidence band where there are replications."""
        return efficiency_figure(self.rows, title=self.question)

    def plot_breakdown(self) -> Figure:
        """What the steps consist of, for each scheme and size."""
        return breakdown_figure(self.rows, title=self.question)

    def text(self, *, width: int = WIDTH) -> str:
        """The report as plain text: question, table, what binds, warnings, notes."""
        lines = [f"{self.question}\n", table_text(self.rows, width=width).rstrip("\n"), ""]
        if self.binding:
            lines += [self.binding, ""]
        lines += [f"warning: {text}" for text in self.warnings]
        lines += [f"note: {text}" for text in self.notes]
        return "\n".join(lines).rstrip("\n") + "\n"

    def as_json(self) -> str:
        """One object: ``scenario``, ``manifest``, ``rows``.  What is empty is null; nothing is NaN."""
        whole = {"scenario": resolved(self.loaded), "manifest": self.manifest, "rows": self.rows}
        return json_text(whole)

    def write(self, directory: str | os.PathLike[str], *, plots: bool = True) -> Path:
        """Write the run directory, completely or not at all; give its path.

        Raise OutputError if there is something at that place already, or it cannot be written.
        """
        files: dict[str, Callable[[], bytes]] = {
            "results.csv": lambda: csv_text(self.rows).encode(),
            "scenario.resolved.json": lambda: json_text(resolved(self.loaded)).encode(),
            "scenario.resolved.toml": lambda: to_toml(self.loaded).encode(),
            "manifest.json": lambda: json_text(self.manifest).encode(),
            "report.txt": lambda: self.text().encode(),
        }
        if plots:
            figures = {"efficiency": self.plot_efficiency(), "breakdown": self.plot_breakdown()}
            for name, figure in figures.items():
                files[f"{name}.png"] = partial(image_bytes, figure, "png")
                files[f"{name}.svg"] = partial(image_bytes, figure, "svg")
        return write_directory(Path(directory), files)

    def _repr_html_(self) -> str:
        return str(self.table.to_html(index=False))


def json_text(value: object) -> str:
    """``value`` as JSON for files and pipes; numbers that JSON does not have become null."""
    return json.dumps(_without_inf(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _without_inf(value: Any) -> Any:
    """The same, with null for what JSON has no number for, such as an option that is infinite."""
    if isinstance(value, dict):
        return {key: _without_inf(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_inf(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _warnings(rows: Sequence[Row]) -> Iterator[str]:
    """What a person must know before believing these rows."""
    unsteady = [row for row in rows if row["steady"] is False]
    if unsteady:
        yield (
            f"too few steps to have settled, the numbers may still drift (steady is false): "
            f"{_places(unsteady)}; raise training.steps"
        )
    extrapolated = [row for row in rows if row["extrapolated"]]
    if extrapolated:
        yield f"batches outside what the profile measured (extrapolated is true): {_places(extrapolated)}"


def _places(rows: Sequence[Row]) -> str:
    """Schemes, each with its sizes: ``sync at 1, 2 nodes; async at 512 nodes``."""
    sizes: dict[str, list[str]] = {}
    for row in rows:
        sizes.setdefault(str(row["scheme"]), []).append(f"{row['nodes']:,}")
    return "; ".join(
        f"{scheme} at {', '.join(nodes)} {'node' if nodes == ['1'] else 'nodes'}"
        for scheme, nodes in sizes.items()
    )
