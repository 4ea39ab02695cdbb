"""The table a person reads in the terminal: a readable subset of the columns, one line per scheme and size.

Times share one unit, stated in the header, and one number of decimals, so that the parts of a step
can be added up by eye.  Columns that say nothing in this run are left out, and so are, from the
least important on, those for which the line has no room; ``results.csv`` has all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pssim.results.rows import Cell, Row

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["WIDTH", "rich_table", "table_text"]

WIDTH = 140
"""Characters in a line where there is no terminal to ask."""

_NOTHING = "-"


def table_text(rows: Sequence[Row], *, width: int = WIDTH) -> str:
    """The table as plain text of at most ``width`` characters a line, whatever it is printed on."""
    import io

    from rich.console import Console

    text = io.StringIO()
    console = Console(file=text, width=width, color_system=None, force_terminal=False, legacy_windows=False)
    console.print(rich_table(rows, width=width))
    return "".join(line.rstrip() + "\n" for line in text.getvalue().splitlines())


def rich_table(rows: Sequence[Row], *, width: int = WIDTH) -> Table:
    """The table for a rich console that is ``width`` characters wide."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    everything = _columns(rows)
    gap = 2 if _width(everything, 2) <= width else 1
    columns = _fitting(everything, gap, width)
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    table.padding = (0, gap - 1, 0, 0)  # the box itself puts one blank between columns
    for column in columns:
        table.add_column("\n".join(column.head), justify="left" if column.left else "right", no_wrap=True)
    for place, row in enumerate(rows):
        last_of_scheme = place + 1 < len(rows) and rows[place + 1]["scheme"] != row["scheme"]
        # As Text: a label such as ssp[bound=0] would be read as markup.
        table.add_row(*(Text(column.cells[place]) for column in columns), end_section=last_of_scheme)
    left_out = [column.name for column in everything if column not in columns]
    if left_out:
        table.caption = f"no room for {', '.join(left_out)}"
        table.caption_justify = "left"
    return table


# ------------------------------------------------------------------------------------------- columns


@dataclass(frozen=True, slots=True)
class _Printed:
    """A column as printed.  The one with the lowest ``keep`` is the first to go when a line is too long."""

    name: str
    head: tuple[str, str]
    cells: tuple[str, ...]
    keep: int
    left: bool

    @property
    def width(self) -> int:
        return max(len(text) for text in (*self.head, *self.cells))


def _width(columns: Sequence[_Printed], gap: int) -> int:
    return sum(column.width + gap for column in columns)


def _fitting(columns: Sequence[_Printed], gap: int, width: int) -> list[_Printed]:
    """As many of the columns as fit, the most important ones, in their order."""
    kept = list(columns)
    while len(kept) > 1 and _width(kept, gap) > width:
        kept.remove(min(kept, key=lambda column: column.keep))
    return kept


def _columns(rows: Sequence[Row]) -> list[_Printed]:
    unit, per_s, decimals = _time_unit(rows)
    columns: list[_Printed] = []

    def add(name: str, head: str, below: str, keep: int, spell: Callable[[Row], str] | None = None) -> None:
        spelled = tuple(spell(row) if spell else str(row[name]) for row in rows)
        columns.append(_Printed(name, (head, below), spelled, keep, left=spell is None))

    def add_count(name: str, below: str, keep: int) -> None:
        add(name, name, below, keep, lambda row: _count(row[name]))

    def add_time(name: str, head: str, keep: int) -> None:
        add(name, head, unit, keep, lambda row: _fixed(row[name], per_s, decimals))

    def same(name: str, other: str) -> bool:
        return all(row[name] == row[other] for row in rows)

    add("scheme", "scheme", "", 100)
    add_count("nodes", "=ranks" if same("nodes", "ranks") else "", 99)
    if not same("nodes", "ranks") and not same("cores", "ranks"):
        add_count("ranks", "", 98)
    add_count("cores", "=ranks" if same("cores", "ranks") else "", 97)
    add("engine", "engine", "", 50)
    add("step_s", "step", unit, 96, lambda row: _step(row, per_s, decimals))
    add("throughput_samples_per_s", "samples", "per s", 92, _rate)
    add("efficiency", "efficiency", "%", 95, _efficiency)
    add_time("compute_s", "compute", 80)
    if any(row["interference_s"] for row in rows):
        add_time("interference_s", "interfer.", 81)
    add_time("update_s", "update", 45 if _negligible("update_s", rows) else 70)
    add_time("exposed_wait_s", "wait", 90)
    add_time("exposed_queue_s", "queue", 88)
    add_time("exposed_transfer_s", "transfer", 89)
    if any(row["overlap"] is not None for row in rows):
        add("overlap", "overlap", "%", 65, lambda row: _fixed(row["overlap"], 100, 1))
    if any(row["staleness_mean"] for row in rows):
        add("staleness_mean", "stale", "mean", 60, lambda row: _fixed(row["staleness_mean"], 1, 2))
    return columns


def _negligible(name: str, rows: Sequence[Row]) -> bool:
    """Whether a part is below half a percent of the step everywhere."""
    return all(_value(row[name] or 0) <= 0.005 * _value(row["step_s"] or 0) for row in rows)


# --------------------------------------------------------------------------------------------- cells


def _time_unit(rows: Sequence[Row]) -> tuple[str, float, int]:
    """The unit for all times of the table, what a second is in it, and the decimals that suit it."""
    known = [_value(row[name]) for row in rows for name in ("step_s", "step_bound_low_s") if row[name]]
    if not known:
        return "ms", 1e3, 1
    shortest_s = min(known)
    if shortest_s >= 10:
        return "s", 1.0, 3
    unit, per_s = ("us", 1e6) if shortest_s < 1e-3 else ("ms", 1e3)
    before_point = math.floor(math.log10(shortest_s * per_s)) + 1
    return unit, per_s, min(max(4 - before_point, 1), 4)


def _step(row: Row, per_s: float, decimals: int) -> str:
    """The step; where a closed form only knows bounds, an approximation between them, marked as one."""
    low, high = row["step_bound_low_s"], row["step_bound_high_s"]
    step, least, most = (_fixed(cell, per_s, decimals) for cell in (row["step_s"], low, high))
    if row["step_s"] is None and low is not None and high is not None:
        return f"{least}..{most}"
    return step if least == most else f"~{step} in {least}..{most}"


def _efficiency(row: Row) -> str:
    """In percent, with half the width of its interval where there is one."""
    if row["efficiency"] is None:
        return _NOTHING
    text = f"{100 * _value(row['efficiency']):.2f}"
    low, high = row["efficiency_ci_low"], row["efficiency_ci_high"]
    if low is None or high is None:
        return text
    return f"{text} ±{50 * (_value(high) - _value(low)):.2f}"


def _fixed(cell: Cell, factor: float, decimals: int) -> str:
    """A bare 0 for what is exactly nothing, so that what is not stands out."""
    if cell is None:
        return _NOTHING
    value = _value(cell) * factor
    return "0" if value == 0 else f"{value:.{decimals}f}"


def _rate(row: Row) -> str:
    if row["throughput_samples_per_s"] is None:
        return _NOTHING
    value = _value(row["throughput_samples_per_s"])
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _count(cell: Cell) -> str:
    return _NOTHING if cell is None else f"{int(_value(cell)):,}"


def _value(cell: Any) -> float:
    return float(cell)
