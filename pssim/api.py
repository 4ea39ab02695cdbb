"""pssim in Python: one call from a scenario to its result."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

from pssim.report.manifest import manifest_of
from pssim.report.result import Result
from pssim.run import Interrupted, Point, Progress
from pssim.run import run as run_points
from pssim.scenario import Loaded, load

__all__ = ["RunInterrupted", "run"]


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C during a run; ``result`` holds the points that were finished."""

    def __init__(self, result: Result) -> None:
        super().__init__("interrupted")
        self.result = result


def run(
    scenario: Loaded | str | Path,
    *,
    engine: str = "auto",
    replications: int | None = None,
    progress: Progress | None = None,
    processes: int | None = None,
    command: Sequence[str] | None = None,
) -> Result:
    """Simulate a scenario, given as loaded, by name, or by path.

    ``engine`` is one of auto, events, vector and analytic; ``replications`` overrides the scenario's.
    ``progress(done, total, text)`` is called now and then.  ``command`` is what the manifest says was run.

    Raise RunInterrupted on Ctrl-C, with what was finished until then as its ``result``.
    """
    loaded = scenario if isinstance(scenario, Loaded) else load(scenario, replications=replications)
    started, began_s = datetime.now(), time.monotonic()

    def result(points: Iterable[Point], *, interrupted: bool) -> Result:
        manifest = manifest_of(
            scenario=loaded.name,
            engine=engine,
            seed=loaded.scenario.training.seed,
            started=started,
            simulated_s=round(time.monotonic() - began_s, 3),
            interrupted=interrupted,
            command=command,
        )
        return Result.from_points(loaded, points, manifest)

    try:
        points = run_points(
            loaded, engine=engine, replications=replications, progress=progress, processes=processes
        )
    except Interrupted as error:
        raise RunInterrupted(result(error.points, interrupted=True)) from None
    return result(points, interrupted=False)
