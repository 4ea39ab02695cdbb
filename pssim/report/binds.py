"""One line that says what binds at the largest size, for each scheme."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pssim.results.columns import PARTS
from pssim.results.rows import Row

__all__ = ["binding_line", "largest_rows"]

_MEANING = {
    "interference_s": "computation slowed down by communication",
    "update_s": "the weight update",
    "exposed_wait_s": "waiting for slower ranks",
    "exposed_queue_s": "queueing for a busy channel, link or server",
    "exposed_transfer_s": "communication that computation does not hide",
}

_NEGLIGIBLE = 0.01
"""Below this share of the step, everything but computation together is not worth naming."""


def binding_line(rows: Sequence[Row]) -> str:
    """For each scheme at its largest size, the largest part of the step beside computation, and its share.

    Schemes are grouped by their largest size, so that a run that was cut short says so by itself.
    Rows whose parts are not known (bounds of a closed form) are left out; the line may be empty.
    """
    by_size: dict[str, list[str]] = {}
    for row in largest_rows(rows):
        said = _binding(row)
        if said:
            by_size.setdefault(_size(row), []).append(f"{_name(row)}: {said}")
    return " ".join(f"What binds at {size}: {'; '.join(said)}." for size, said in by_size.items())


def largest_rows(rows: Iterable[Row]) -> list[Row]:
    """The row with the most ranks of each scheme, simulated or analytic, in the order of first appearance."""
    largest: dict[tuple[object, bool], Row] = {}
    for row in rows:
        key = (row["scheme"], row["engine"] == "analytic")
        if key not in largest or _value(row, "ranks") > _value(largest[key], "ranks"):
            largest[key] = row
    return list(largest.values())


def _binding(row: Row) -> str:
    step_s = _value(row, "step_s")
    if step_s <= 0 or row["compute_s"] is None:
        return ""
    computing = _value(row, "compute_s") / step_s
    if 1 - computing < _NEGLIGIBLE:
        return f"computation ({_percent(computing)} of the step)"
    known = {name: _value(row, name) / step_s for name in PARTS if row[name] is not None}
    if sum(known.values()) < 1 - _NEGLIGIBLE:  # a closed form that does not split what is not computation
        return f"computation {_percent(computing)} of the step, the rest not split by this closed form"
    part = max(_MEANING, key=lambda name: known.get(name, 0.0))
    return f"{_MEANING[part]} ({_percent(known[part])} of the step; computation {_percent(computing)})"


def _size(row: Row) -> str:
    """For example ``512 nodes (12,288 cores)``, and the ranks where they are neither."""
    nodes, ranks, cores = (int(_value(row, name)) for name in ("nodes", "ranks", "cores"))
    inner = [_counted(ranks, "rank")] if ranks not in (nodes, cores) else []
    if cores != nodes:
        inner.append(_counted(cores, "core"))
    return _counted(nodes, "node") + (f" ({', '.join(inner)})" if inner else "")


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _name(row: Row) -> str:
    return f"{row['scheme']} (analytic)" if row["engine"] == "analytic" else str(row["scheme"])


def _percent(share: float) -> str:
    """A share that never rounds to all or nothing when it is neither."""
    percent = 100 * share
    if 0 < percent < 0.05:
        return "< 0.1 %"
    if 99.95 <= percent < 100:
        return "> 99.9 %"
    return f"{percent:.1f} %"


def _value(row: Row, name: str) -> float:
    cell = row[name]
    return 0.0 if cell is None else float(cell)
