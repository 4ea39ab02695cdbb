"""How far the analytic engine's approximations are from simulation, where no closed form is exact.

Run it with ``python benchmarks/approximation_error.py [--quick]``.  It prints a table: for each kind of
scheme the number of points on a grid, the mean, the 90 % quantile and the maximum of
|analytic / simulated - 1|, the mean standard error of the simulated step itself, and how often that
left the bounds.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pssim.cluster import Jitter, JitterSource, fill_nodes
from pssim.engine import analytic, events, vector
from pssim.engine.job import Job, server_nodes
from pssim.engine.measure import measure
from pssim.network import Link, Network
from pssim.registry import find_variant
from pssim.workload.step import Bucket, StepWorkload

BANDWIDTH = 1e9


@dataclass(frozen=True)
class Error:
    """One point of a grid: analytic over simulated, less 1, and the simulation's own standard error."""

    kind: str
    point: str
    relative: float
    standard: float
    below_low: float
    above_high: float


def delayed_grid(*, quick: bool) -> Iterator[tuple[str, Job]]:
    """Delayed schemes with jitter: ranks, delay, communication over compute, size and kind of jitter."""
    sizes = (4, 32) if quick else (2, 16, 256)
    delays = (1, 2) if quick else (1, 2, 4)
    ratios = (0.3, 0.9, 1.5) if quick else (0.1, 0.5, 0.9, 1.1, 2.0)
    parts = (Jitter(independent=0.1), Jitter(node=0.1), Jitter(0.05, 0.0, 0.1))
    if not quick:
        parts += (Jitter(independent=0.02), Jitter(independent=0.3), Jitter(0.02, 0.05, 0.05))
    for ranks, delay, ratio, jitter in itertools.product(sizes, delays, ratios, parts):
        placement = fill_nodes(ranks, 1 if ranks < 8 else 4)
        network = Network(Link(1e-5, BANDWIDTH), Link(1e-6, 10 * BANDWIDTH), "ring")
        # Of 4 buckets in 1 s of compute; the ring moves about twice the bytes.
        size = round(ratio / 4 * BANDWIDTH * ranks / (2 * (ranks - 1)))
        buckets = tuple(Bucket(index, size, 0.15, 1) for index in range(4))
        workload = StepWorkload(0.4, buckets, 0.0, 32, False, ())
        scheme = find_variant("pseudo-sync").build({"delay": delay})
        yield (
            f"ranks={ranks} delay={delay} comm/comp={ratio} jitter={_text(jitter)}",
            Job("pseudo-sync", scheme, placement, workload, network, JitterSource(jitter, placement), 400),
        )


def server_grid(*, quick: bool) -> Iterator[tuple[str, Job]]:
    """Parameter servers: workers, servers and where, communication over compute, update, bound, jitter."""
    workers = (2, 8) if quick else (2, 8, 32)
    servers = ((1, "colocated"), (1, "dedicated"), (4, "dedicated"))
    ratios = (0.02, 0.3) if quick else (0.01, 0.05, 0.3)
    updates = (0.0, 0.05) if quick else (0.0, 0.02, 0.2)
    bounds = (None, 0) if quick else (None, 0, 3)
    jitters = (Jitter(), Jitter(independent=0.1)) + (() if quick else (Jitter(0.1, 0.0, 0.1),))
    grid = itertools.product(workers, servers, ratios, updates, bounds, jitters)
    for ranks, (count, where), ratio, update_s, bound, jitter in grid:
        placement = fill_nodes(ranks, 1)
        buckets = tuple(Bucket(index, round(ratio / 8 * BANDWIDTH), 0.15, 1) for index in range(4))
        workload = StepWorkload(0.4, buckets, update_s, 32, False, ())
        options = {"bound": bound, "servers": count, "placement": where}
        scheme = find_variant("async").build(options)
        nodes = server_nodes(count, where == "dedicated", ranks)
        yield (
            f"workers={ranks} servers={count} {where} comm/comp={ratio} update={update_s} bound={bound} "
            f"jitter={_text(jitter)}",
            Job(
                "async", scheme, placement, workload, Network(Link(1e-5, BANDWIDTH)),
                JitterSource(jitter, placement), 80, nodes,
            ),
        )  # fmt: skip


def _text(jitter: Jitter) -> str:
    return f"{jitter.persistent:g}/{jitter.node:g}/{jitter.independent:g}"


def error(kind: str, point: str, job: Job, replications: int) -> Error:
    """The error of the analytic engine's step at one point, against the mean over replications."""
    expected = analytic.estimate(job)
    scheme, steps_s = job.scheme, []
    for replication in range(replications if job.jitter.jitter else 1):
        source = JitterSource(job.jitter.jitter, job.placement, replication=replication)
        again = replace(job, jitter=source)
        raw = (events if scheme.has_server else vector).simulate(again)
        record = measure(
            raw, pattern=scheme.pattern(), warm_up=scheme.warm_up(), update_ps=sum(job.update_ps)
        )
        steps_s.append(float((record.window_ps / record.steps_measured).mean()) / 1e12)
    mean = math.fsum(steps_s) / len(steps_s)
    spread = math.fsum((step - mean) ** 2 for step in steps_s) / max(1, len(steps_s) - 1)
    return Error(
        kind,
        point,
        expected.step_s / mean - 1.0,
        math.sqrt(spread / len(steps_s)) / mean,
        expected.low_s / mean - 1.0,
        1.0 - expected.high_s / mean,
    )


def delayed_errors(*, quick: bool) -> list[Error]:
    """The error at each point of the grid of delayed schemes."""
    found = []
    for point, job in delayed_grid(quick=quick):
        # A persistent part is drawn once a run: only many runs average over it.
        persistent = job.jitter.jitter.persistent > 0
        kind = f"delayed, {'persistent' if persistent else 'varying'}"
        found.append(error(kind, point, job, 24 if persistent else 4))
    return found


def server_errors(*, quick: bool) -> list[Error]:
    """The error at each point of the grid of parameter servers."""
    found = []
    for point, job in server_grid(quick=quick):
        jitter, bound = job.jitter.jitter, getattr(job.scheme, "bound", None)
        scheme = "async" if bound is None else f"ssp {bound}"
        kind = "persistent" if jitter.persistent else "varying" if jitter else "no jitter"
        found.append(error(f"{scheme}, {kind}", point, job, 4 if jitter.persistent else 2))
    return found


def outside(error: Error) -> bool:
    """Whether the simulated step left the bounds by more than 4 standard errors.

    0.2 % are allowed besides, which is what a measured window may keep of the filling of a delay queue.
    """
    return max(error.below_low, error.above_high) > 4 * error.standard + 0.002


def table(errors: list[Error]) -> str:
    """A line a kind: points, mean, 90 % quantile and maximum of the error, noise, points out of bounds."""
    head = "".join(f"{name:>8}" for name in ("n", "mean", "p90", "max", "noise", "outside"))
    lines = [f"{'kind':18}{head}  worst point"]
    for kind in dict.fromkeys(error.kind for error in errors):
        mine = sorted((e for e in errors if e.kind == kind), key=lambda e: abs(e.relative))
        sizes = [abs(e.relative) for e in mine]
        noise = sum(error.standard for error in mine) / len(mine)
        p90 = sizes[int(0.9 * (len(sizes) - 1))]
        lines.append(
            f"{kind:18}{len(mine):8}{sum(sizes) / len(sizes):8.4f}{p90:8.4f}{sizes[-1]:8.4f}{noise:8.4f}"
            f"{sum(map(outside, mine)):8}  {mine[-1].point} ({mine[-1].relative:+.4f})"
        )
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small grid")
    quick = parser.parse_args().quick
    print(table(delayed_errors(quick=quick) + server_errors(quick=quick)))


if __name__ == "__main__":
    main()
