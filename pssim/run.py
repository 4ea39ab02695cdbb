"""From a loaded scenario to points: engine choice, replications, and the use of all cores."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait as wait_for
from types import ModuleType
from typing import TYPE_CHECKING, Literal

from pssim.engine import analytic, events, vector
from pssim.engine.guard import NotLockStep, asked
from pssim.engine.job import Job, check_horizon
from pssim.engine.measure import measure
from pssim.engine.record import RawLog, Record
from pssim.errors import EngineError, InputError
from pssim.jobs import JobMaker
from pssim.program import NoClosedForm

if TYPE_CHECKING:
    from pssim.scenario import Loaded

__all__ = ["ENGINES", "Interrupted", "Point", "Progress", "run", "simulate"]

ENGINES = ("auto", "events", "vector", "analytic")
Engine = Literal["auto", "events", "vector", "analytic"]
Progress = Callable[[int, int, str], None]
"""Called with how many replications are done, how many there are, and what was done last."""

# Starting a second process costs about this much, so shorter runs stay in this one.
_WORTH_A_POOL_S = 1.0


@dataclass(frozen=True)
class Point:
    """One scheme at one size: a row of the table to be."""

    scheme_label: str
    nodes: int
    ranks: int
    cores: int
    samples_per_step: int
    """Samples a rank takes in one optimiser step."""
    engine: str
    records: tuple[Record, ...] = ()
    analytic: Mapping[str, float] | None = None
    extrapolated: bool = False
    notes: tuple[str, ...] = ()


class Interrupted(KeyboardInterrupt):
    """Ctrl-C; ``points`` holds what was finished."""

    def __init__(self, points: list[Point]) -> None:
        super().__init__("interrupted")
        self.points = points


def simulate(job: Job, engine: Engine = "auto") -> tuple[RawLog, str | None]:
    """Run a job on a simulating engine; with what there is to say about the choice.

    ``auto`` takes the vector engine where the program runs in lock step, and starts again on events
    if it turns out not to.  Raise EngineError if the engine asked for does not support the job.
    """
    check_horizon(job)
    if engine == "events":
        return events.simulate(job), None
    reasons = vector.unsupported(job)
    if engine == "vector" and reasons:
        raise EngineError(f"engine vector does not support scheme {job.label}: {'; '.join(reasons)}")
    if reasons:
        return events.simulate(job), None
    try:
        return vector.simulate(job), None
    except NotLockStep as error:
        if engine == "vector":
            raise EngineError(f"engine vector does not support scheme {job.label}: {error}") from None
        return events.simulate(job), f"{job.label}: left lock step during the run ({error}); ran on events"


def measured(job: Job, engine: Engine = "auto") -> tuple[Record, str | None]:
    """Run a job and measure its steady window."""
    raw, note = simulate(job, engine)
    scheme = job.scheme
    record = measure(
        raw,
        pattern=asked(scheme, "pattern", 1),
        warm_up=asked(scheme, "warm_up", 0),
        update_ps=sum(job.update_ps),
    )
    return record, note


def run(
    loaded: Loaded,
    *,
    engine: str = "auto",
    replications: int | None = None,
    progress: Progress | None = None,
    processes: int | None = None,
) -> list[Point]:
    """Every scheme at every size, in the scenario's order.

    Long runs use ``processes`` processes (by default one a core; 1 keeps everything in this one).
    Results do not depend on that.  Raise Interrupted, with what is finished, on Ctrl-C.
    """
    if engine not in ENGINES:
        raise EngineError(f"engine must be one of {', '.join(ENGINES)}, got {engine!r}")
    for name, number in (("replications", replications), ("processes", processes)):
        if number is not None and number < 1:
            raise InputError(f"{name} must be at least 1, got {number}")
    maker = JobMaker(loaded)
    if engine == "analytic":
        return [_closed_form(loaded, maker, task) for task in _tasks(loaded, maker, replications=1)]
    tasks = _tasks(loaded, maker, replications)
    done = _Done(tasks, progress)
    try:
        left = _here(maker, loaded, tasks, engine, done, alone=processes == 1)
        if left:
            try:
                _in_pool(loaded, left, engine, done, processes or os.cpu_count() or 1)
            except (BrokenProcessPool, NotImplementedError, PermissionError):
                # A process was killed, or this system allows none: what is left is done here.
                left = [task for task in left if task not in done.results]
                _here(maker, loaded, left, engine, done, alone=True)
    except KeyboardInterrupt:
        raise Interrupted(done.points(loaded, maker)) from None
    return done.points(loaded, maker)


@dataclass(frozen=True, slots=True)
class _Task:
    """One replication of one scheme at one size, by their places in the scenario."""

    entry: int
    size: int
    replication: int


def _tasks(loaded: Loaded, maker: JobMaker, replications: int | None) -> list[_Task]:
    scenario = loaded.scenario
    tasks = []
    for entry, scheme in enumerate(scenario.schemes):
        # Without jitter every replication is the same.
        count = (replications or scenario.replications_of(scheme)) if maker.jitter else 1
        for size in range(len(scenario.sizes)):
            tasks += [_Task(entry, size, replication) for replication in range(count)]
    return tasks


@dataclass
class _Done:
    """What is finished."""

    tasks: list[_Task]
    progress: Progress | None
    results: dict[_Task, tuple[Record, str | None]] = field(default_factory=dict)

    def add(self, loaded: Loaded, task: _Task, result: tuple[Record, str | None]) -> None:
        self.results[task] = result
        if self.progress is not None:
            scenario = loaded.scenario
            label, size = scenario.schemes[task.entry].label, scenario.sizes[task.size]
            nodes = "1 node" if size.nodes == 1 else f"{size.nodes} nodes"
            self.progress(len(self.results), len(self.tasks), f"{label}, {nodes}")

    def points(self, loaded: Loaded, maker: JobMaker) -> list[Point]:
        """A point for every scheme and size of which a replication is finished."""
        points = []
        for entry, size in dict.fromkeys((task.entry, task.size) for task in self.tasks):
            found = [
                self.results[task]
                for task in self.tasks
                if (task.entry, task.size) == (entry, size) and task in self.results
            ]
            if not found:
                continue
            records = tuple(record for record, _ in found)
            notes = tuple(dict.fromkeys(note for _, note in found if note is not None))
            point = _point(loaded, maker, entry, size, engine=records[0].engine)
            points.append(
                Point(**{**vars(point), "records": records, "notes": (*point.notes, *notes)})
            )
        return points


def _point(loaded: Loaded, maker: JobMaker, entry: int, size: int, *, engine: str) -> Point:
    at = loaded.scenario.sizes[size]
    workload = maker.workload(at)
    return Point(
        scheme_label=maker.label(loaded.scenario.schemes[entry]),
        nodes=at.nodes,
        ranks=at.ranks,
        cores=at.cores,
        samples_per_step=workload.samples,
        engine=engine,
        extrapolated=workload.extrapolated,
        notes=workload.notes,
    )


def _closed_form(loaded: Loaded, maker: JobMaker, task: _Task) -> Point:
    scheme = loaded.scenario.schemes[task.entry]
    job = maker.job(scheme, loaded.scenario.sizes[task.size])
    try:
        found = analytic.estimate(job)
    except NoClosedForm as error:
        raise EngineError(f"engine analytic does not support scheme {job.label}: {error}") from None
    per_s = job.workload.samples * job.ranks / found.step_s if found.step_s else 0.0
    row = {
        "step_s": found.step_s,
        "step_bound_low_s": found.low_s,
        "step_bound_high_s": found.high_s,
        "compute_s": found.compute_s,
        "update_s": found.update_s,
        "throughput_samples_per_s": per_s,
        "efficiency": found.alone_s / found.step_s if found.step_s else 1.0,
    }
    point = _point(loaded, maker, task.entry, task.size, engine="analytic")
    return Point(**{**vars(point), "analytic": row})


# ------------------------------------------------------------------------------------- where it runs


def _run_task(maker: JobMaker, loaded: Loaded, task: _Task, engine: Engine) -> tuple[Record, str | None]:
    scenario = loaded.scenario
    job = maker.job(scenario.schemes[task.entry], scenario.sizes[task.size], task.replication)
    return measured(job, engine)


def _here(
    maker: JobMaker, loaded: Loaded, tasks: list[_Task], engine: str, done: _Done, *, alone: bool
) -> list[_Task]:
    """Run tasks in this process, and give those that are worth a pool of processes."""
    began = time.monotonic()
    for place, task in enumerate(tasks):
        if not alone and time.monotonic() - began > _WORTH_A_POOL_S and len(tasks) - place > 1:
            return tasks[place:]
        done.add(loaded, task, _run_task(maker, loaded, task, engine))  # type: ignore[arg-type]
    return []


_mine: tuple[JobMaker, Loaded] | None = None


def _start_worker(loaded: Loaded) -> None:
    """Make a pool's process ready; Ctrl-C is the parent's to handle."""
    global _mine
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _mine = JobMaker(loaded), loaded


def _end_with_parent() -> None:
    """Do not outlive a parent that was killed: nobody would wait for the results, or end this process."""
    parent = parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)


def _in_worker(task: _Task, engine: Engine) -> tuple[Record, str | None]:
    assert _mine is not None
    maker, loaded = _mine
    return _run_task(maker, loaded, task, engine)


def _in_pool(loaded: Loaded, tasks: list[_Task], engine: str, done: _Done, processes: int) -> None:
    """Run tasks in several processes, the largest sizes first so that they end together."""
    ordered = sorted(tasks, key=lambda task: -task.size)
    pool = ProcessPoolExecutor(
        min(processes, len(tasks)),
        mp_context=get_context("spawn"),
        initializer=_start_worker,
        initargs=(loaded,),
    )
    # A spawned process imports its parent's main module again: a plain script would start over.
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        running: dict[Future[tuple[Record, str | None]], _Task] = {}
        waiting = iter(ordered)
        for task in _first(waiting, 2 * processes):
            running[pool.submit(_in_worker, task, engine)] = task  # type: ignore[arg-type]
        while running:
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                done.add(loaded, running.pop(future), future.result())
                for task in _first(waiting, 1):
                    running[pool.submit(_in_worker, task, engine)] = task  # type: ignore[arg-type]
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in list((pool._processes or {}).values()):
            process.terminate()
        raise
    finally:
        sys.modules["__main__"] = main
    pool.shutdown()


def _first(tasks: Iterator[_Task], count: int) -> list[_Task]:
    return [task for _, task in zip(range(count), tasks, strict=False)]
