"""Results for people: the table in the terminal, what binds, plots, and the run directory."""

from __future__ import annotations

from pssim.report.result import Result

__all__ = ["Result"]
