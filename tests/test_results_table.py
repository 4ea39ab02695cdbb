"""Tables: the same rows as DataFrame and CSV."""

from __future__ import annotations

import csv
import io
import math

import pandas as pd
import pytest

from pssim.results import COLUMNS, csv_text, table_of


def row(**cells):
    given = {"scheme": "sync", "nodes": 1, "ranks": 1, "cores": 24}
    given |= {"engine": "vector", "samples_per_step": 32}
    return {**dict.fromkeys(COLUMNS), **given, "extrapolated": False, **cells}


def test_types_do_not_depend_on_the_data():
    """A table of closed forms, in which most is empty, can be put below one of simulations."""
    empty, full = table_of([row()]), table_of([row(step_s=1.0, staleness_max=3, steady=True)])
    assert list(empty.dtypes) == list(full.dtypes)
    assert empty["staleness_max"].isna().all()
    assert full["staleness_max"][0] == 3


def test_no_rows_make_an_empty_table_with_all_columns():
    """Nothing was finished, but the columns are known."""
    assert list(table_of([]).columns) == list(COLUMNS)


def test_csv_reads_back_to_the_same_bits():
    """The shortest decimal that is the same float again; not a digit less."""
    values = [1 / 3, 0.1 + 0.2, 1e-300, 123456789.123456789]
    text = csv_text([row(step_s=value) for value in values])
    assert [float(line["step_s"]) for line in csv.DictReader(io.StringIO(text))] == values


def test_csv_agrees_with_the_table():
    """Whoever reads results.csv with pandas sees the numbers of Result.table."""
    rows = [row(step_s=math.pi, staleness_max=2, steady=True), row(nodes=2)]
    read = pd.read_csv(io.StringIO(csv_text(rows)), dtype=table_of(rows).dtypes.to_dict())
    pd.testing.assert_frame_equal(read, table_of(rows), check_exact=True)


def test_csv_lines_end_the_same_everywhere():
    """Two machines give the same bytes."""
    assert "\r" not in csv_text([row()])


def test_empty_cells_are_empty():
    """Neither nan nor None."""
    line = csv_text([row()]).splitlines()[1]
    assert "nan" not in line.lower()
    assert "None" not in line


@pytest.mark.parametrize("column", COLUMNS.values(), ids=list(COLUMNS))
def test_every_column_is_explained(column):
    """Unit, meaning and formula; a name that carries a unit agrees with it."""
    assert column.definition.endswith(".")
    assert column.formula
    suffixes = {"_samples_per_s": "samples/s", "_s": "s"}
    unit = next((unit for suffix, unit in suffixes.items() if column.name.endswith(suffix)), None)
    assert unit in (None, column.unit)


PROMISED = """
scheme nodes ranks cores engine
step_s step_p50_s step_p99_s step_ci_low_s step_ci_high_s
compute_s interference_s update_s exposed_wait_s exposed_queue_s exposed_transfer_s overlap
throughput_samples_per_s efficiency efficiency_ci_low efficiency_ci_high efficiency_own_baseline
staleness_mean staleness_max clock_gap_max bytes_per_rank
samples_per_step replications steps_measured steady extrapolated step_bound_low_s step_bound_high_s
"""


def test_the_columns_are_these():
    """Names and order are a promise to everybody who reads results.csv."""
    assert list(COLUMNS) == PROMISED.split()
