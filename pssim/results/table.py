"""Rows as a DataFrame and as CSV; both hold the same numbers to the last bit."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pssim.results.columns import COLUMNS, Column
from pssim.results.rows import Cell, Row

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["csv_text", "table_of"]


def table_of(rows: Sequence[Row]) -> pd.DataFrame:
    """A tidy DataFrame: one row per scheme and size, types that do not depend on the data."""
    import pandas as pd

    return pd.DataFrame(
        {
            name: pd.Series([row[name] for row in rows], dtype=_dtype(column))
            for name, column in COLUMNS.items()
        }
    )


def _dtype(column: Column) -> str:
    if column.kind == "count":
        return "Int64" if column.optional else "int64"
    if column.kind == "flag":
        return "boolean" if column.optional else "bool"
    return "float64" if column.kind == "number" else "str"


def csv_text(rows: Sequence[Row]) -> str:
    r"""The rows as CSV: floats in the shortest form that reads back to the same bits, lines end in ``\n``."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([_spelled(row[name]) for name in COLUMNS] for row in rows)
    return text.getvalue()


def _spelled(cell: Cell) -> str:
    if cell is None:
        return ""
    return repr(cell) if isinstance(cell, float) else str(cell)
