"""From the raw log of a run to the record of its measured window.

Ranks that run in lock step share one window.  It ends with the last step, is a whole multiple of
the pattern steps repeat in (delay + 1), and begins where the lag from a collective's issue to its
completion has stopped growing: while it still grows, the delay queue is filling and steps are
shorter than they will be.  The slope over a window can be wrong by no more than the lag grows per
step, so the earliest window is taken over which that is at most 0.2 % of a step (if there is none, 0.5 %
over half of the run); but where the lag comes to stand still altogether, as it does without jitter,
the window begins there.

Ranks that run freely (parameter servers) are measured from a quarter of their steps on.  All of them
run all that time: a rank that has taken its steps goes on, unmeasured, until the slowest has.
"""

from __future__ import annotations

from math import ceil, fsum, sqrt

import numpy as np
from numpy.typing import NDArray

from pssim.engine.record import EXTRA, SENT, IntArray, RawLog, Record

__all__ = ["carried_ps", "covered_ps", "measure", "snapshot_steps"]

_STANDS_STILL = 1e-9
# The drift, in steps a step, that a window may have, and the share of the run it must begin in.
_LOCK_STEP_DRIFT = ((0.002, 0.75), (0.005, 0.5))
_FREE_DRIFT = 0.02
_CANDIDATES = 24


def snapshot_steps(steps: int, pattern: int, warm_up: int) -> tuple[int, ...]:
    """The step boundaries a window may begin at, and the end.

    ``pattern`` is delay + 1.  What lies before :func:`first_usable` is not measured, unless the run
    has nothing else.
    """
    earliest = min(first_usable(pattern, warm_up), steps - 1)
    possible = [step for step in range(steps - 1, -1, -1) if (steps - step) % pattern == 0]
    usable = [step for step in possible if step >= earliest] or [max(0, steps - pattern)]
    stride = -(-len(usable) // _CANDIDATES)
    return (*sorted({usable[-1], *usable[::-1][::stride]}), steps)


def first_usable(pattern: int, warm_up: int) -> int:
    """The first step whose gradients are all as late as they will be.

    With a delay of pattern - 1 the first ``delay`` steps after the warm-up apply nothing, and what the
    next ``delay`` apply was computed on weights that were still fresher.
    """
    return warm_up + max(1, 2 * (pattern - 1))


def measure(raw: RawLog, *, pattern: int, warm_up: int, update_ps: int, keep_raw: bool = False) -> Record:
    """Choose the window and sum up what lies in it; ``update_ps`` is a whole update of a rank alone."""
    steps, ranks = raw.marks_ps.shape[0] - 1, raw.marks_ps.shape[1]
    if raw.free_running:
        start, steady = _free_window(raw)
        stale = raw.server_staleness[raw.server_staleness[:, 0] >= raw.marks_ps[start].max(), 1:]
    else:
        start, steady = _lock_step_window(raw, snapshot_steps(steps, pattern, warm_up), pattern, warm_up)
        stale = raw.staleness[start:]
    first, last = np.full(ranks, start), np.full(ranks, steps)
    total = raw.snapshots[steps] - raw.snapshots[start]
    p50, p99 = _percentiles(np.diff(raw.marks_ps[start:], axis=0).ravel(), 0.50, 0.99)
    bytes_updated = int(stale[:, 1].sum())
    # A server's updates are not among its workers' own times; alone, a worker would make them itself.
    own_update_ps = (steps - start) * update_ps if raw.free_running else total[2]
    return Record(
        engine=raw.engine,
        first=first,
        last=last,
        window_ps=raw.marks_ps[steps] - raw.marks_ps[start],
        step_p50_ps=p50,
        step_p99_ps=p99,
        compute_ps=total[0],
        interference_ps=total[1],
        update_ps=total[2],
        wait_ps=total[3],
        queue_ps=total[4],
        transfer_ps=total[5],
        in_transfer_ps=covered_ps(raw.intervals_ps, raw.marks_ps[start], raw.marks_ps[steps])
        + carried_ps(raw.messages, raw.marks_ps[start], raw.marks_ps[steps]),
        alone_ps=total[0] - total[EXTRA] + own_update_ps,
        bytes_sent=total[SENT] + fsum(raw.collective_bytes[start:].tolist()),
        staleness_mean=int(stale[:, 0].sum()) / bytes_updated if bytes_updated else None,
        staleness_max=int(stale[:, 2].max(initial=0)) if bytes_updated else None,
        clock_gap_max=raw.clock_gap_max,
        steady=steady,
        raw=raw if keep_raw else None,
    )


def _percentiles(durations_ps: IntArray, *shares: float) -> list[int]:
    """For each share, the shortest duration that so large a share of all steps keeps within."""
    places = [max(ceil(share * durations_ps.size), 1) - 1 for share in shares]
    durations_ps.partition(places)
    return [int(durations_ps[place]) for place in places]


def _lock_step_window(
    raw: RawLog, candidates: tuple[int, ...], pattern: int, warm_up: int
) -> tuple[int, bool]:
    """Where the window begins, and whether the run has settled by then."""
    steps, ranks = raw.marks_ps.shape[0] - 1, raw.marks_ps.shape[1]
    *starts, _ = candidates
    lag = np.convolve(np.asarray(raw.lag_ps, dtype=np.float64), np.ones(pattern), "valid") / (pattern * ranks)
    shortest = pattern if pattern == 1 else 2 * pattern
    earliest = first_usable(pattern, warm_up)
    usable = [start for start in starts if start >= earliest and steps - start >= shortest]
    if not usable:  # the whole run is shorter than what has to be cut off and one pattern
        return starts[-1], False
    step_ps = float((raw.marks_ps[steps] - raw.marks_ps[usable[0]]).mean()) / (steps - usable[0])
    for start in usable:  # without jitter the lag does not only stop growing, it stands still
        rest = lag[start:]
        if rest.size >= max(2, steps // 4) and np.ptp(rest) <= _STANDS_STILL * step_ps:
            return start, True
    span = max(1, len(lag) // 32)
    final = lag[-4 * span :].mean()
    for drift, share in _LOCK_STEP_DRIFT:
        for start in usable:
            growth = abs(final - lag[start : start + span].mean())
            if start <= share * steps and growth <= drift * step_ps * (steps - start):
                return start, True
    return min(usable, key=lambda start: abs(start - steps / 2)), False


def _free_window(raw: RawLog) -> tuple[int, bool]:
    """Where the window begins; steady unless its halves differ by more than 2 % and three standard errors."""
    steps = raw.marks_ps.shape[0] - 1
    first = min(max(1, steps // 4), steps - 1)
    durations = np.diff(raw.marks_ps[first:], axis=0).mean(axis=1)
    early, late = np.array_split(durations, 2)
    if late.size == 0:
        return first, False
    change = abs(float(early.mean() - late.mean()))
    error = sqrt(early.var() / early.size + late.var() / late.size)
    return first, change <= max(_FREE_DRIFT * float(durations.mean()), 3.0 * error)


def covered_ps(intervals: list[tuple[int, int]], begin: IntArray, end: IntArray) -> IntArray:
    """How much of each ``[begin, end)`` the union of the intervals covers."""
    if not intervals:
        return np.zeros_like(begin)
    merged: list[list[int]] = []
    for start, stop in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], stop)
        else:
            merged.append([start, stop])
    edges = np.asarray(merged, dtype=np.int64)
    before = np.concatenate([[0], np.cumsum(edges[:, 1] - edges[:, 0])])

    def up_to(time: IntArray) -> NDArray[np.int64]:
        started = np.searchsorted(edges[:, 0], time, side="right")
        overshoot = np.where(started > 0, np.maximum(edges[started - 1, 1] - time, 0), 0)
        covered: NDArray[np.int64] = before[started] - overshoot
        return covered

    return up_to(end) - up_to(begin)


def carried_ps(messages: IntArray, begin: IntArray, end: IntArray) -> IntArray:
    """How long messages of each rank were in transfer between its ``begin`` and ``end``.

    A message on a link that it shares is in transfer for its share of the time; messages of a rank at
    the same time count once, that is, their shares add up to one at most.
    """
    rank, start, stop, alone = messages.T
    span = stop - start
    share = np.divide(alone, span, out=np.zeros(len(span)), where=span > 0)
    start, stop = np.maximum(start, begin[rank]), np.minimum(stop, end[rank])
    inside = stop > start
    rank, start, stop, share = rank[inside], start[inside], stop[inside], share[inside]
    who = np.concatenate([rank, rank])
    when = np.concatenate([start, stop])
    change = np.concatenate([share, -share])
    order = np.lexsort((when, who))
    who, when, change = who[order], when[order], change[order]
    # Every rank's shares end at 0, so one running sum serves all of them.
    under_way = np.minimum(np.cumsum(change)[:-1], 1.0)
    lasting = np.where(who[1:] == who[:-1], np.diff(when), 0)
    carried = np.bincount(who[:-1], weights=under_way * lasting, minlength=len(begin))
    rounded: IntArray = np.rint(carried).astype(np.int64)
    return rounded
