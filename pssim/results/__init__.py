"""What comes out of a run: records of engines become rows with the columns of the glossary."""

from __future__ import annotations

from pssim.results.columns import COLUMNS, Column
from pssim.results.rows import row_of, rows_of
from pssim.results.table import csv_text, table_of

__all__ = ["COLUMNS", "Column", "csv_text", "row_of", "rows_of", "table_of"]
