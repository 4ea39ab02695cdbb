"""How fast pssim is, in seconds and as a multiple of a plain SimPy loop on the same machine.

    python benchmarks/speed.py              # everything; a Markdown table
    python benchmarks/speed.py --check      # the measures that have a limit; exits with 1 if one is broken
    python benchmarks/speed.py --only events,async

Seconds differ from machine to machine, so what is checked are ratios.  The yardstick is a loop of 512
SimPy processes that take 900 timeouts each, timed just before and just after what is measured, in the
same process; their mean cancels a machine that is getting faster or slower.  Both are counted in
CPU seconds, which a busy neighbour disturbs far less than the clock on the wall; that is shown too.
Every measure runs in a process of its own, so that none finds the memory of another.

A measure that exceeds its limit is repeated, twice at most, and its best attempt counts.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

ATTEMPTS = 3
MIB = 2**20


@dataclass(frozen=True)
class Measured:
    """One attempt: ``yardstick_s`` is the SimPy loop beside it, ``figure`` what the goal is stated in."""

    cpu_s: float
    wall_s: float
    yardstick_s: float
    figure: str = ""
    memory_bytes: int | None = None

    @property
    def ratio(self) -> float:
        """CPU seconds over those of the yardstick."""
        return self.cpu_s / self.yardstick_s


@dataclass(frozen=True)
class Benchmark:
    """What is measured, the goal set for it on two cores, and the limits that hold on any machine."""

    title: str
    goal: str
    attempt: Callable[[], Measured]
    ratio_limit: float | None = None
    memory_limit_bytes: int | None = None

    def keeps(self, measured: Measured) -> bool:
        """Whether the limits are kept."""
        if self.ratio_limit is not None and measured.ratio > self.ratio_limit:
            return False
        return self.memory_limit_bytes is None or (measured.memory_bytes or 0) <= self.memory_limit_bytes


# ------------------------------------------------------------------------------------------ the stopwatch


def yardstick_s() -> float:
    """CPU seconds of 512 SimPy processes that take 900 timeouts each."""
    import simpy

    gc.collect()
    began = time.process_time()
    environment = simpy.Environment()

    def process() -> Generator[simpy.Event, None, None]:
        for _ in range(900):
            yield environment.timeout(1)

    for _ in range(512):
        environment.process(process())
    environment.run()
    return time.process_time() - began


def timed(work: Callable[[], object]) -> Measured:
    """Time ``work`` between two runs of the yardstick."""
    before = yardstick_s()
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return Measured(cpu, wall, (before + yardstick_s()) / 2, memory_bytes=own_peak_bytes())


def timed_command(command: list[str], folder: str | None = None) -> Measured:
    """The same for a command in processes of its own; with the most memory they held together."""
    before = yardstick_s()
    used, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    memory = _Memory(process.pid)
    memory.start()
    _, errors = process.communicate()
    wall = time.perf_counter() - wall
    peak = memory.stop()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{errors}")
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    return Measured(cpu, wall, (before + yardstick_s()) / 2, memory_bytes=max(peak, _kib(now.ru_maxrss)))


def own_peak_bytes() -> int:
    """The most memory this process has held."""
    return _kib(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def _kib(maximum: int) -> int:
    return maximum if sys.platform == "darwin" else maximum * 1024


class _Memory(threading.Thread):
    """Watches a process and its descendants; pages they share count once for each.

    Where there is no /proc to look into it sees nothing, and the largest single process has to do.
    """

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid, self._peak, self._ended = pid, 0, threading.Event()

    def run(self) -> None:
        """Look twenty times a second."""
        while not self._ended.wait(0.05):
            self._peak = max(self._peak, sum(map(_resident_bytes, self._family())))

    def stop(self) -> int:
        """End, and give the most that was seen."""
        self._ended.set()
        self.join()
        return self._peak

    def _family(self) -> list[int]:
        parents: dict[int, int] = {}
        for entry in Path("/proc").glob("[0-9]*/stat"):
            try:
                parents[int(entry.parent.name)] = int(entry.read_text().rpartition(")")[2].split()[1])
            except OSError:  # it has ended meanwhile
                continue
        family = [self._pid]
        for member in family:
            family += [pid for pid, parent in parents.items() if parent == member]
        return family


def _resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


# -------------------------------------------------------------------------------------------- the engines


def _simulated(scheme: str, options: dict[str, object], *, ranks: int, buckets: int, steps: int) -> Measured:
    """A job with jitter, run by the engine that supports it and measured: marks, breakdown, staleness."""
    from pssim.cluster import Jitter, JitterSource, fill_nodes
    from pssim.engine import events, vector
    from pssim.engine.job import Job, server_nodes
    from pssim.engine.measure import measure
    from pssim.network import Link, Network
    from pssim.registry import find_variant
    from pssim.workload.step import Bucket, StepWorkload

    # Gradients of 80 MB (ResNet-50 has 102), 0.3 s of compute and 1 GB/s: a ring takes about half as
    # long as the computation.
    size_bytes = 80_000_000 // buckets
    workload = StepWorkload(
        forward_s=0.1,
        buckets=tuple(Bucket(index, size_bytes, 0.2 / buckets, 20) for index in range(buckets)),
        update_s=1e-3,
        samples=32,
        extrapolated=False,
        notes=(),
    )
    built = find_variant(scheme).build(options)
    placement = fill_nodes(ranks, 1)
    job = Job(
        label=scheme,
        scheme=built,
        placement=placement,
        workload=workload,
        network=Network(Link(1.5e-6, 1e9), None, "auto"),
        jitter=JitterSource(Jitter(independent=0.02), placement),
        steps=steps,
        server_nodes=server_nodes(1, dedicated=True, nodes=ranks) if built.has_server else (),
    )
    on_events = built.has_server or ranks <= 512
    engine = events if on_events else vector

    def work() -> None:
        record = measure(
            engine.simulate(job),
            pattern=built.pattern(),
            warm_up=built.warm_up(),
            update_ps=sum(job.update_ps),
        )
        # All that is measured is there: a breakdown that adds up, and the staleness.
        parts = record.compute_ps + record.update_ps + record.wait_ps + record.queue_ps + record.transfer_ps
        assert (parts == record.window_ps).all()
        assert record.staleness_mean > 0

    return timed(work)


def _events() -> Measured:
    return _simulated("pseudo-sync", {}, ranks=512, buckets=8, steps=100)


def _vector() -> Measured:
    return _simulated("pseudo-sync", {}, ranks=12_288, buckets=8, steps=1000)


def _async() -> Measured:
    options: dict[str, object] = {"servers": 1, "placement": "dedicated"}
    return _simulated("async", options, ranks=12_288, buckets=1, steps=20)


def _analytic(jitter: str) -> Measured:
    from dataclasses import replace

    from pssim.run import run
    from pssim.scenario import Loaded, load

    def sized(nodes: list[int]) -> Loaded:
        changes = [f"training.nodes={nodes}", f"cluster.jitter={{ {jitter} }}"]
        return load("tianhe2-resnet50", overrides=changes, schemes="sync,sync-overlap,pseudo-sync")

    run(sized([1001]), engine="analytic")  # imports what it needs
    loaded, points = sized(list(range(1, 1001))), []
    measured = timed(lambda: points.extend(run(loaded, engine="analytic")))
    return replace(measured, figure=f"{len(points) / measured.cpu_s:,.0f} points/s")


# ------------------------------------------------------------------------------------------- the commands


def _pssim(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pssim", *arguments]


def _run_tianhe2() -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        return timed_command(_pssim("run", "tianhe2-resnet50", "--out", "out"), folder)


def _best_command(command: list[str]) -> Measured:
    with tempfile.TemporaryDirectory() as folder:  # away from the checkout, whose pssim is not the one meant
        return min((timed_command(command, folder) for _ in range(5)), key=lambda measured: measured.wall_s)


def _help() -> Measured:
    return _best_command(_pssim("--help"))


def _load_alone() -> Measured:
    import pssim.run
    import pssim.scenario

    del pssim
    return timed(_load_once)


def _load_once() -> None:
    import pssim

    pssim.load("tianhe2-resnet50")


def _load_whole() -> Measured:
    return _best_command([sys.executable, "-c", "import pssim; pssim.load('tianhe2-resnet50')"])


def _analytic_plain() -> Measured:
    return _analytic("independent = 0")


def _analytic_jitter() -> Measured:
    return _analytic("independent = 0.02")


BENCHMARKS = {
    "events": Benchmark("`events`: 512 ranks x 8 buckets x 100 steps, pseudo-sync", "3 s", _events, 7.5),
    "vector": Benchmark("`vector`: 12,288 ranks x 8 buckets x 1,000 steps, pseudo-sync", "2 s", _vector, 5.0),
    "async": Benchmark("`events`: async, 12,288 workers x 20 steps, one server link", "15 s", _async, 38.0),
    # 30 s on two cores, where the yardstick takes 0.4 s as the other goals and limits have it.
    "run": Benchmark("`pssim run tianhe2-resnet50`", "30 s, 1 GiB", _run_tianhe2, 150.0, 1024 * MIB),
    "analytic": Benchmark("analytic, 1,000 sizes x 3 schemes, no jitter", "4,000 points/s", _analytic_plain),
    "analytic-jitter": Benchmark("the same with jitter", "4,000 points/s", _analytic_jitter),
    "help": Benchmark("`pssim --help`, best of 5", "0.2 s", _help),
    "load": Benchmark("load and validate `tianhe2-resnet50`, modules imported", "0.2 s", _load_alone),
    "load-whole": Benchmark("the same as a process of its own, best of 5", "0.2 s", _load_whole),
}
"""By the names that ``--only`` takes."""


# --------------------------------------------------------------------------------------------- the report


def best(benchmark: Benchmark) -> tuple[Measured, int]:
    """The best attempt, and how many there were."""
    attempts: list[Measured] = []
    while len(attempts) < ATTEMPTS:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            attempts.append(process.submit(benchmark.attempt).result())
        if benchmark.keeps(attempts[-1]):
            return attempts[-1], len(attempts)
    return min(attempts, key=lambda measured: measured.ratio), len(attempts)


def line(benchmark: Benchmark, measured: Measured, attempts: int) -> str:
    """A row of the table."""
    memory = "" if measured.memory_bytes is None else f"{measured.memory_bytes / MIB:,.0f} MiB"
    limit = "" if benchmark.ratio_limit is None else f"{benchmark.ratio_limit:g}"
    verdict = "" if not limit else "kept" if benchmark.keeps(measured) else "BROKEN"
    if attempts > 1:
        verdict += f" (attempt {attempts})" if verdict == "kept" else f" ({attempts} attempts)"
    cells = (
        benchmark.title,
        benchmark.goal,
        measured.figure or f"{measured.wall_s:.3g} s",
        f"{measured.cpu_s:.3g} s",
        memory,
        f"{measured.ratio:.3g}",
        limit,
        verdict,
    )
    return f"| {' | '.join(cells)} |"


def machine() -> str:
    """The machine in generic terms."""
    model = platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = info.read_text().splitlines()
        named = [text.partition(":")[2].strip() for text in lines if text.startswith("model name")]
        model = named[0] if named else model
    return f"{os.cpu_count()} cores, {model}, {platform.system()}, Python {platform.python_version()}"


def main() -> int:
    """Measure, print a row as each is done, and give the exit code."""
    parser = argparse.ArgumentParser(description="Measure how fast pssim is.")
    parser.add_argument("--check", action="store_true", help="only what has a limit; exit 1 if one is broken")
    parser.add_argument("--only", metavar="A,B", help=f"some of {', '.join(BENCHMARKS)}")
    arguments = parser.parse_args()
    names = arguments.only.split(",") if arguments.only else list(BENCHMARKS)
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no measure is called {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    if arguments.check:
        names = [name for name in names if BENCHMARKS[name].ratio_limit is not None]
    print(f"{machine()}\n")
    print("| measure | goal | took | CPU | memory | ratio | limit | |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    broken = []
    for name in names:
        measured, attempts = best(BENCHMARKS[name])
        print(line(BENCHMARKS[name], measured, attempts), flush=True)
        if not BENCHMARKS[name].keeps(measured):
            broken.append(name)
    if broken:
        print(f"\nLimits broken: {', '.join(broken)}", file=sys.stderr)
    return 1 if broken and arguments.check else 0


if __name__ == "__main__":
    raise SystemExit(main())
