"""From what an engine recorded to the row of a table.

Times are integers of picoseconds up to here.  Means are taken in exact rational numbers and become
floats once, at the end: so the six parts add up to the step to within the rounding of the columns,
whatever the number of ranks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from pssim.results.columns import COLUMNS, PARTS

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Integers: TypeAlias = npt.NDArray[np.int64]
    Floats: TypeAlias = npt.NDArray[np.float64]

__all__ = ["Cell", "PointLike", "RecordLike", "Row", "row_of", "rows_of"]

Cell: TypeAlias = str | int | float | bool | None
Row: TypeAlias = dict[str, Cell]

_PS_PER_S = 10**12


class RecordLike(Protocol):
    """What a row needs of one job and replication: totals over the measured window."""

    @property
    def window_ps(self) -> Integers: ...  # noqa: D102
    @property
    def step_p50_ps(self) -> int: ...  # noqa: D102
    @property
    def step_p99_ps(self) -> int: ...  # noqa: D102
    @property
    def first(self) -> int | Integers: ...  # noqa: D102
    @property
    def last(self) -> Integers: ...  # noqa: D102
    @property
    def compute_ps(self) -> Integers: ...  # noqa: D102
    @property
    def interference_ps(self) -> Integers: ...  # noqa: D102
    @property
    def update_ps(self) -> Integers: ...  # noqa: D102
    @property
    def wait_ps(self) -> Integers: ...  # noqa: D102
    @property
    def queue_ps(self) -> Integers: ...  # noqa: D102
    @property
    def transfer_ps(self) -> Integers: ...  # noqa: D102
    @property
    def in_transfer_ps(self) -> Integers: ...  # noqa: D102
    @property
    def alone_ps(self) -> Integers: ...  # noqa: D102
    @property
    def bytes_sent(self) -> Floats: ...  # noqa: D102
    @property
    def staleness_mean(self) -> float | None: ...  # noqa: D102
    @property
    def staleness_max(self) -> int | None: ...  # noqa: D102
    @property
    def clock_gap_max(self) -> int | None: ...  # noqa: D102
    @property
    def steady(self) -> bool: ...  # noqa: D102


class PointLike(Protocol):
    """What a row needs of one scheme at one size."""

    @property
    def scheme_label(self) -> str: ...  # noqa: D102
    @property
    def nodes(self) -> int: ...  # noqa: D102
    @property
    def ranks(self) -> int: ...  # noqa: D102
    @property
    def cores(self) -> int: ...  # noqa: D102
    @property
    def samples_per_step(self) -> int: ...  # noqa: D102
    @property
    def engine(self) -> str: ...  # noqa: D102
    @property
    def records(self) -> Sequence[RecordLike]: ...  # noqa: D102
    @property
    def extrapolated(self) -> bool: ...  # noqa: D102
    @property
    def analytic(self) -> Mapping[str, float] | None: ...  # noqa: D102


_RECORDED: dict[str, Callable[[RecordLike], Integers]] = {
    "compute_s": lambda record: record.compute_ps,
    "interference_s": lambda record: record.interference_ps,
    "update_s": lambda record: record.update_ps,
    "exposed_wait_s": lambda record: record.wait_ps,
    "exposed_queue_s": lambda record: record.queue_ps,
    "exposed_transfer_s": lambda record: record.transfer_ps,
}


def rows_of(points: Iterable[PointLike]) -> list[Row]:
    """The rows of these points in their order; each point may be forgotten once its row is made."""
    rows = [row_of(point) for point in points]
    _own_baselines(rows)
    return rows


def row_of(point: PointLike) -> Row:
    """The row of one point, but for the one column that looks at other rows (``efficiency_own_baseline``)."""
    row: Row = dict.fromkeys(COLUMNS)
    row.update(
        scheme=point.scheme_label,
        nodes=int(point.nodes),
        ranks=int(point.ranks),
        cores=int(point.cores),
        engine=point.engine,
        samples_per_step=int(point.samples_per_step),
        extrapolated=bool(point.extrapolated),
    )
    row.update(_simulated(point) if point.records else _closed_form(point))
    return {name: _finite(cell) for name, cell in row.items()}


# ------------------------------------------------------------------------------------------ simulated


def _simulated(point: PointLike) -> Row:
    records = point.records
    measures = [_measure(record, point.samples_per_step) for record in records]
    n = len(measures)
    steps_s = [float(measure.step_ps / _PS_PER_S) for measure in measures]
    efficiencies = [measure.efficiency for measure in measures]
    step_low, step_high = _interval(steps_s)
    efficiency_low, efficiency_high = _interval(efficiencies)
    stale = [float(record.staleness_mean) for record in records if record.staleness_mean is not None]
    oldest = [int(record.staleness_max) for record in records if record.staleness_max is not None]
    gaps = [record.clock_gap_max for record in records if record.clock_gap_max is not None]

    row: Row = {
        "step_s": _seconds([measure.step_ps for measure in measures]),
        "step_p50_s": _mean([record.step_p50_ps / _PS_PER_S for record in records]),
        "step_p99_s": _mean([record.step_p99_ps / _PS_PER_S for record in records]),
        "step_ci_low_s": step_low,
        "step_ci_high_s": step_high,
        "throughput_samples_per_s": math.fsum(measure.throughput_per_s for measure in measures) / n,
        "efficiency": _mean(efficiencies),
        "efficiency_ci_low": efficiency_low,
        "efficiency_ci_high": efficiency_high,
        "staleness_mean": _mean(stale) if stale else None,
        "staleness_max": max(oldest) if oldest else None,
        "clock_gap_max": max(map(int, gaps)) if gaps else None,
        "bytes_per_rank": math.fsum(measure.bytes_per_step for measure in measures) / n,
        "replications": n,
        "steps_measured": min(measure.steps for measure in measures),
        "steady": all(bool(record.steady) for record in records),
    }
    for name in PARTS:
        row[name] = _seconds([measure.parts_ps[name] for measure in measures])
    exposed_ps = sum(measure.parts_ps["exposed_transfer_s"] for measure in measures)
    in_transfer_ps = sum(measure.in_transfer_ps for measure in measures)
    row["overlap"] = float(1 - exposed_ps / in_transfer_ps) if in_transfer_ps else None
    return row


@dataclass(frozen=True, slots=True)
class _Measure:
    """One replication, per step and averaged over ranks; picoseconds are exact."""

    step_ps: Fraction
    parts_ps: dict[str, Fraction]
    in_transfer_ps: Fraction
    bytes_per_step: float
    throughput_per_s: float
    efficiency: float
    steps: int


def _measure(record: RecordLike, samples: int) -> _Measure:
    """One replication.  Ranks too slow for a single measured step cannot be averaged, and are left out."""
    import numpy as np

    first = np.broadcast_to(record.first, record.last.shape)
    counts = record.last - first
    measured = np.flatnonzero(counts > 0)
    steps = counts[measured]
    window_ps = record.window_ps[measured]
    rate = _rate_per_ps(steps, window_ps)
    rate_alone = _rate_per_ps(steps, record.alone_ps[measured])
    return _Measure(
        step_ps=_per_step(window_ps, steps),
        parts_ps={name: _per_step(totals(record)[measured], steps) for name, totals in _RECORDED.items()},
        in_transfer_ps=_per_step(record.in_transfer_ps[measured], steps),
        bytes_per_step=math.fsum((record.bytes_sent[measured] / steps).tolist()) / len(steps),
        throughput_per_s=samples * _PS_PER_S * rate,
        efficiency=rate / rate_alone,
        steps=int(counts.min()),
    )


def _per_step(totals_ps: Integers, steps: Integers) -> Fraction:
    """The mean over ranks of total / steps, exactly.

    Summed as Python integers: 12,288 ranks times an hour of picoseconds do not fit into 64 bits.
    """
    totals: dict[int, int] = {}
    for count, total_ps in zip(steps.tolist(), totals_ps.tolist(), strict=True):
        totals[count] = totals.get(count, 0) + total_ps
    return sum((Fraction(total, count) for count, total in totals.items()), Fraction(0)) / len(steps)


def _rate_per_ps(steps: Integers, spans_ps: Integers) -> float:
    """Steps per picosecond of all ranks together; not a number where a rank takes no time at all."""
    if not spans_ps.all():
        return math.nan
    return math.fsum((steps / spans_ps).tolist())


def _seconds(times_ps: Sequence[Fraction]) -> float:
    return float(sum(times_ps, Fraction(0)) / len(times_ps) / _PS_PER_S)


def _mean(values: Sequence[float]) -> float:
    """The mean, and exactly the common value where all are equal."""
    if all(value == values[0] for value in values):
        return values[0]
    return math.fsum(values) / len(values)


def _interval(values: Sequence[float]) -> tuple[float | None, float | None]:
    """The two-sided 95 % Student interval of the mean; none for one value, zero width for equal ones."""
    n = len(values)
    if n < 2:
        return None, None
    mean = _mean(values)
    if all(value == mean for value in values):
        return mean, mean
    from scipy.special import stdtrit  # scipy.stats takes seconds to import

    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    half = float(stdtrit(n - 1, 0.975)) * deviation / math.sqrt(n)
    return mean - half, mean + half


# ---------------------------------------------------------------------------------------- closed form

_HELPERS = ("alone_s", "in_transfer_s")
"""What a closed form may give beside columns: seconds per step alone, and in transfer."""


def _closed_form(point: PointLike) -> Row:
    """What the closed form gives, and what follows from it; all else stays empty."""
    given = dict(point.analytic or {})
    unknown = sorted(set(given) - set(COLUMNS) - set(_HELPERS))
    if unknown:
        raise ValueError(f"closed form of {point.scheme_label}: {', '.join(unknown)} are no columns")
    alone_s, in_transfer_s = (given.pop(name, None) for name in _HELPERS)
    row: Row = {}
    for name, value in given.items():
        whole = COLUMNS[name].kind == "count" and math.isfinite(value)
        row[name] = bool(value) if COLUMNS[name].kind == "flag" else int(value) if whole else float(value)
    step_s = given.get("step_s")
    if step_s is not None and step_s > 0:
        row.setdefault("throughput_samples_per_s", point.ranks * point.samples_per_step / step_s)
        if alone_s is not None:
            row.setdefault("efficiency", alone_s / step_s)
    exposed_s = given.get("exposed_transfer_s")
    if in_transfer_s and exposed_s is not None:
        row.setdefault("overlap", 1 - exposed_s / in_transfer_s)
    return row


# ------------------------------------------------------------------------------------ across the rows


def _own_baselines(rows: Sequence[Row]) -> None:
    """Fill in ``efficiency_own_baseline``; simulated and analytic rows each have their own baseline."""
    smallest: dict[tuple[Cell, bool], Row] = {}
    for row in rows:
        key = (row["scheme"], row["engine"] == "analytic")
        if key not in smallest or _number(row["ranks"]) < _number(smallest[key]["ranks"]):
            smallest[key] = row
    for row in rows:
        own, base = _per_rank(row), _per_rank(smallest[row["scheme"], row["engine"] == "analytic"])
        row["efficiency_own_baseline"] = own / base if own is not None and base else None


def _per_rank(row: Row) -> float | None:
    throughput = row["throughput_samples_per_s"]
    return None if throughput is None else _number(throughput) / _number(row["ranks"])


def _number(cell: Any) -> float:
    return float(cell)


def _finite(cell: Cell) -> Cell:
    """The cell, or empty for what is not a finite number: files never hold nan or inf."""
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell
