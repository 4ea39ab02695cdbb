"""Rows: what an engine recorded, averaged over ranks and replications."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pssim.engine.record import Record
from pssim.results import COLUMNS, row_of, rows_of
from pssim.results.columns import PARTS

S = 10**12  # picoseconds


def record(steps_s: Any, *, first: int = 0, last: Any = None, **changes: Any) -> Record:
    """A record whose steps, an array of (steps, ranks) in seconds, are computation and nothing else."""
    steps_ps = np.asarray(np.round(np.asarray(steps_s, dtype=float) * S), dtype=np.int64)
    steps, ranks = steps_ps.shape
    marks_ps = np.vstack([np.zeros((1, ranks), np.int64), steps_ps.cumsum(axis=0)])
    last = np.full(ranks, steps) if last is None else np.asarray(last)
    window_ps = marks_ps[last, np.arange(ranks)] - marks_ps[first]
    inside = [steps_ps[first : last[rank], rank] for rank in range(ranks)]
    measured = np.sort(np.concatenate(inside))
    nothing = np.zeros(ranks, np.int64)
    none_ps = ("interference_ps", "update_ps", "wait_ps", "queue_ps", "transfer_ps", "in_transfer_ps")
    fields: dict[str, Any] = {
        "engine": "vector", "first": first, "last": last, "window_ps": window_ps, "compute_ps": window_ps,
        "step_p50_ps": int(measured[(len(measured) - 1) // 2]), "step_p99_ps": int(measured[-1]),
        **dict.fromkeys(none_ps, nothing), "alone_ps": window_ps, "bytes_sent": np.zeros(ranks),
        "staleness_mean": 0.0, "staleness_max": 0, "clock_gap_max": None, "steady": True,
    }
    return Record(**{**fields, **changes})


def point(*records: Record, ranks: int | None = None, **changes: Any) -> Any:
    ranks = ranks or (len(records[0].last) if records else 1)
    fields = {
        "scheme_label": "sync", "nodes": ranks, "ranks": ranks, "cores": 24 * ranks, "samples_per_step": 32,
        "engine": "vector", "records": records, "extrapolated": False, "notes": (), "analytic": None,
    }
    return SimpleNamespace(**{**fields, **changes})


def test_a_row_has_the_columns_of_the_glossary_in_their_order():
    """What is not known is there too, empty."""
    assert list(row_of(point(record([[1.0]])))) == list(COLUMNS)


def test_the_step_is_the_slope_over_the_window():
    """Two steps of 1 s are cut off; the three measured take 2, 3 and 4 s."""
    row = row_of(point(record([[1], [1], [2], [3], [4]], first=2)))
    assert row["step_s"] == 3.0
    assert row["steps_measured"] == 3


def test_ranks_with_different_windows_count_alike():
    """A rank measured for two steps of 4 s and one measured for four steps of 2 s: 3 s on average."""
    steps_s = np.array([[4.0, 2.0], [4.0, 2.0], [9.0, 2.0], [9.0, 2.0]])
    row = row_of(point(record(steps_s, last=[2, 4])))
    assert row["step_s"] == 3.0
    assert row["steps_measured"] == 2
    assert row["step_p99_s"] == 4.0  # the steps of 9 s lie outside the window


def test_a_rank_that_finished_no_step_in_the_window_is_left_out():
    """There is nothing to average for it, and the row says so by the steps measured."""
    row = row_of(point(record([[1.0, 7.0]], last=[1, 0])))
    assert row["step_s"] == 1.0
    assert row["steps_measured"] == 0


def test_percentiles_are_averaged_over_replications():
    """Each replication's own: what is typical for a run, not the worst of all runs."""
    row = row_of(point(record([[1.0], [2.0], [4.0]]), record([[3.0], [4.0], [8.0]])))
    assert (row["step_p50_s"], row["step_p99_s"]) == (3.0, 6.0)


def test_the_interval_is_students():
    """Steps of 1, 2 and 3 s: t(0.975, 2) = 4.302653, standard deviation 1, over sqrt(3)."""
    row = row_of(point(*(record([[seconds]]) for seconds in (1.0, 2.0, 3.0))))
    assert row["step_s"] == 2.0
    assert row["step_ci_high_s"] - 2.0 == pytest.approx(4.302652729749 / 3**0.5, rel=1e-12)
    assert 2.0 - row["step_ci_low_s"] == pytest.approx(4.302652729749 / 3**0.5, rel=1e-12)


def test_one_replication_has_no_interval():
    """An empty cell, not a width of zero."""
    row = row_of(point(record([[1.0]])))
    assert row["step_ci_low_s"] is row["step_ci_high_s"] is None
    assert row["efficiency_ci_low"] is row["efficiency_ci_high"] is None


def test_equal_replications_have_an_interval_of_no_width():
    """Exactly none: no rounding makes up a spread where nothing is random."""
    row = row_of(point(*[record([[0.1], [0.2], [0.7]], alone_ps=np.array([S // 3]))] * 7))
    assert row["step_ci_low_s"] == row["step_s"] == row["step_ci_high_s"]
    assert row["efficiency_ci_low"] == row["efficiency"] == row["efficiency_ci_high"]


def test_efficiency_compares_with_the_same_ranks_alone():
    """Two ranks that would take 1 s and 3 s alone but both take 4 s: (1/4 + 1/4) / (1/1 + 1/3)."""
    row = row_of(point(record([[4.0, 4.0]], alone_ps=np.array([1 * S, 3 * S]))))
    assert row["throughput_samples_per_s"] == pytest.approx(2 * 32 / 4)
    assert row["efficiency"] == pytest.approx(0.5 / (1 + 1 / 3))


def test_without_communication_efficiency_is_exactly_one():
    """Not one within rounding."""
    steps_s = np.random.default_rng(1).uniform(0.1, 3, size=(7, 13))
    assert row_of(point(record(steps_s)))["efficiency"] == 1.0


def test_overlap_is_the_hidden_share_of_the_transfer():
    """Of 8 s in transfer, 2 s are exposed."""
    changes = {"transfer_ps": np.array([2 * S]), "in_transfer_ps": np.array([8 * S])}
    assert row_of(point(record([[10.0]], **changes)))["overlap"] == 0.75


def test_overlap_is_empty_where_nothing_is_transferred():
    """There is no share of nothing."""
    assert row_of(point(record([[1.0]])))["overlap"] is None


def test_staleness_is_averaged_and_its_largest_kept():
    """Mean of the means, largest of the largest; the clock gap of those replications that have one."""
    one = record([[1.0]], staleness_mean=1.0, staleness_max=4, clock_gap_max=2)
    two = record([[1.0]], staleness_mean=2.0, staleness_max=3, clock_gap_max=None)
    row = row_of(point(one, two))
    assert (row["staleness_mean"], row["staleness_max"], row["clock_gap_max"]) == (1.5, 4, 2)


def test_one_replication_that_is_not_steady_makes_the_row_not_steady():
    """A mean with one bad part is no good mean."""
    assert row_of(point(record([[1.0]]), record([[1.0]], steady=False)))["steady"] is False


def test_bytes_are_per_rank_and_step():
    """Two ranks send 30 and 50 bytes in two steps: 20 per rank and step."""
    row = row_of(point(record([[1.0, 1.0], [1.0, 1.0]], bytes_sent=np.array([30.0, 50.0]))))
    assert row["bytes_per_rank"] == 20.0


def test_the_own_baseline_is_the_schemes_smallest_size():
    """Each scheme has its own, wherever in the list its smallest size stands."""
    rows = rows_of(
        [
            point(record([[2.0, 2.0]])),
            point(record([[1.0]])),
            point(record([[8.0, 8.0]]), scheme_label="async"),
        ]
    )
    assert [row["efficiency_own_baseline"] for row in rows] == [0.5, 1.0, 1.0]


def test_steps_that_take_no_time_leave_rates_empty():
    """A model of one parameter and free computation is no division by zero."""
    row = row_of(point(record([[0.0]])))
    assert row["step_s"] == 0.0
    assert row["throughput_samples_per_s"] is row["efficiency"] is None


def test_sums_do_not_overflow():
    """12,288 ranks with an hour each are more picoseconds than 64 bits hold."""
    hour_s = 3600.0
    assert row_of(point(record(np.full((1, 12_288), hour_s))))["step_s"] == hour_s


@given(
    st.integers(1, 5), st.integers(1, 4),
    st.lists(st.integers(0, 10**15), min_size=120, max_size=120),
)
def test_the_six_parts_add_up_to_the_step(ranks, replications, numbers):
    """To the rounding of six additions, whatever the ranks' windows."""
    numbers = iter(numbers)
    records = []
    for _ in range(replications):
        parts = {
            f"{name}_ps": np.array([next(numbers) for _ in range(ranks)])
            for name in ("compute", "interference", "update", "wait", "queue", "transfer")
        }
        last = np.arange(ranks) % 4 + 1
        window_ps = np.sum(list(parts.values()), axis=0)
        records.append(record(np.zeros((4, ranks)), last=last, window_ps=window_ps, **parts))
    row = row_of(point(*records))
    assert sum(row[name] for name in PARTS) == pytest.approx(row["step_s"], rel=1e-14)


# --------------------------------------------------------------------------------------- closed forms


def closed_form(**given: float) -> dict[str, Any]:
    return row_of(point(ranks=4, engine="analytic", analytic=given))


def test_a_closed_form_fills_what_it_gives_and_what_follows():
    """4 ranks with 32 samples in 2 s are 64 samples a second; alone they would need 1.5 s."""
    row = closed_form(step_s=2.0, alone_s=1.5, exposed_transfer_s=0.25, in_transfer_s=1.0)
    assert (row["throughput_samples_per_s"], row["efficiency"], row["overlap"]) == (64.0, 0.75, 0.75)


def test_what_a_closed_form_does_not_give_is_empty():
    """No zeros where nothing was computed."""
    row = closed_form(step_bound_low_s=1.0, step_bound_high_s=2.0)
    known = {name for name, cell in row.items() if cell is not None}
    assert known == {
        "scheme", "nodes", "ranks", "cores", "engine", "samples_per_step", "extrapolated",
        "step_bound_low_s", "step_bound_high_s",
    }


def test_whole_numbers_of_a_closed_form_stay_whole():
    """A closed form computes in floats; columns that count hold integers."""
    assert repr(closed_form(staleness_max=3.0)["staleness_max"]) == "3"


def test_a_closed_form_cannot_invent_columns():
    """A slip in a name would otherwise lose a number in silence."""
    with pytest.raises(ValueError, match="stepp_s"):
        closed_form(stepp_s=1.0)
