"""What an engine leaves behind: the raw log of a run, and the record of its measured window."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pssim.network import Operation

__all__ = [
    "COMPUTE",
    "EXTRA",
    "INTERFERENCE",
    "PARTS",
    "QUEUE",
    "ROWS",
    "SENT",
    "TRANSFER",
    "UPDATE",
    "WAIT",
    "RawLog",
    "Record",
    "lags",
]

IntArray = NDArray[np.int64]

# The rows of a snapshot.  The first six are the parts of a step: they add up to the time passed.
PARTS = ("compute", "interference", "update", "wait", "queue", "transfer")
COMPUTE, INTERFERENCE, UPDATE, WAIT, QUEUE, TRANSFER = range(6)
# Not parts: extra computation within compute, bytes sent point to point.
EXTRA, SENT = 6, 7
ROWS = 8


def lags(last_of_step: list[tuple[Operation, int] | None], ranks: int) -> list[int]:
    """Each step's lag from its last collective and its summed arrivals; a step without keeps the lag."""
    found = [0]
    for last in last_of_step:
        found.append(found[-1] if last is None else (last[0].end_ps or 0) * ranks - last[1])
    return found[1:]


@dataclass(frozen=True)
class RawLog:
    """Everything both simulating engines note down, in whole picoseconds, before a window is chosen.

    ``snapshots[step]`` holds cumulative totals at a step boundary, shape (ROWS, ranks); every engine
    keeps at least the steps of :func:`snapshot_steps`.  ``lag_ps[step]`` is the time from issue to
    completion of the last collective issued in a step (or before), summed over ranks.  ``staleness``
    has a row a step, for the workers' own updates: bytes times staleness, bytes, maximum;
    ``server_staleness``
    a row an update of a server: its time, then the same.
    """

    engine: str
    marks_ps: IntArray
    snapshots: dict[int, IntArray]
    intervals_ps: list[tuple[int, int]]
    lag_ps: list[int]
    staleness: IntArray
    collective_bytes: NDArray[np.float64]
    free_running: bool
    server_staleness: IntArray = field(default_factory=lambda: np.zeros((0, 4), dtype=np.int64))
    messages: IntArray = field(default_factory=lambda: np.zeros((0, 4), dtype=np.int64))
    """A row for each message and each of its ends that is a worker, and for each update a server made for
    one: the worker, when it began and ended, and what it would have taken alone."""
    clock_gap_max: int | None = None


@dataclass(frozen=True)
class Record:
    """One job, measured: totals over the window in picoseconds, arrays of shape (ranks,).

    Rank r is measured from the step boundary ``first[r]`` to the boundary ``last[r]``; the six parts
    ``compute_ps`` to ``transfer_ps`` add up exactly to the time between, ``window_ps[r]``.  The
    percentiles are over the measured steps of all ranks.  ``alone_ps`` is what a rank would take for
    the same steps without communication; ``in_transfer_ps`` the time in which an operation of the rank was in
    transfer.  ``steady`` is False where the run was too short to have settled.
    """

    engine: str
    first: IntArray
    last: IntArray
    window_ps: IntArray
    step_p50_ps: int
    step_p99_ps: int
    compute_ps: IntArray
    interference_ps: IntArray
    update_ps: IntArray
    wait_ps: IntArray
    queue_ps: IntArray
    transfer_ps: IntArray
    in_transfer_ps: IntArray
    alone_ps: IntArray
    bytes_sent: NDArray[np.float64]
    staleness_mean: float | None
    staleness_max: int | None
    clock_gap_max: int | None
    steady: bool
    raw: RawLog | None = field(default=None, repr=False, compare=False)
    """The whole log, where it was asked to be kept."""

    @property
    def steps_measured(self) -> IntArray:
        """How many steps of each rank lie in the window."""
        steps: IntArray = self.last - self.first
        return steps
