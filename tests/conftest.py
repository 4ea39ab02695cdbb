"""What the tests of the core share: jobs made by hand or at random, and ways to run and compare them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from pssim.cluster import Jitter, JitterSource, Placement, fill_nodes
from pssim.engine import events, vector
from pssim.engine.job import Job, server_nodes
from pssim.engine.measure import measure
from pssim.engine.record import RawLog, Record
from pssim.network import Link, Network
from pssim.program import Scheme
from pssim.registry import find_variant
from pssim.workload.step import Bucket, StepWorkload

# The same examples every time, so that a run says the same as the one before; HYPOTHESIS_PROFILE=large
# looks further, and at other places each time.
settings.register_profile("usual", derandomize=True, deadline=None, max_examples=100)
settings.register_profile("large", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "usual"))

PARTS = ("compute_ps", "interference_ps", "update_ps", "wait_ps", "queue_ps", "transfer_ps")


def _make_job(
    scheme: str | Scheme = "sync",
    *,
    options: dict[str, Any] | None = None,
    ranks: int = 4,
    ranks_per_node: int = 1,
    placement: Placement | None = None,
    forward_s: float = 0.4,
    backward_s: Sequence[float] = (0.6,),
    sizes: Sequence[int] = (10**8,),
    update_s: float = 0.0,
    latency_s: float = 0.0,
    bandwidth: float = 1e9,
    local: Link | None = None,
    algorithm: str = "ring",
    width: int = 1,
    holds: bool = True,
    jitter: Jitter | None = None,
    source: Any = None,
    slowdown: Sequence[float] | None = None,
    seed: int = 1,
    replication: int = 0,
    streams: Sequence[int] | None = None,
    node_streams: dict[int, int] | None = None,
    steps: int = 40,
) -> Job:
    """A job: by default 4 ranks on 4 nodes, one bucket, 1 s of compute, no update, no jitter."""
    built = find_variant(scheme).build(options or {}) if isinstance(scheme, str) else scheme
    placed = placement or fill_nodes(ranks, ranks_per_node)
    workload = StepWorkload(
        forward_s=forward_s,
        buckets=tuple(
            Bucket(index, size, backward, 1)
            for index, (size, backward) in enumerate(zip(sizes, backward_s, strict=True))
        ),
        update_s=update_s,
        samples=32,
        extrapolated=False,
        notes=(),
    )
    factors = source or JitterSource(
        jitter or Jitter(),
        placed,
        seed=seed,
        replication=replication,
        slowdown=None if slowdown is None else tuple(slowdown),
        streams=None if streams is None else tuple(streams),
        node_streams=node_streams,
    )
    servers: tuple[int, ...] = ()
    if built.has_server:
        servers = server_nodes(built.server_count(), built.dedicated_servers(), max(placed.node_of_rank) + 1)
    return Job(
        label=scheme if isinstance(scheme, str) else type(scheme).__name__,
        scheme=built,
        placement=placed,
        workload=workload,
        network=Network(
            Link(latency_s, bandwidth), local or Link(latency_s / 3, 7 * bandwidth), algorithm, width, holds
        ),
        jitter=factors,
        steps=steps,
        server_nodes=servers,
    )


def _record_of(job: Job, engine: str = "events", raw: RawLog | None = None) -> Record:
    if raw is None:
        raw = {"events": events, "vector": vector}[engine].simulate(job)
    scheme = job.scheme
    return measure(
        raw, pattern=scheme.pattern(), warm_up=scheme.warm_up(), update_ps=sum(job.update_ps)
    )


def _step_s(record: Record) -> float:
    return float((record.window_ps / record.steps_measured).mean()) / 1e12


def _assert_parts_add_up(record: Record) -> None:
    total = sum(getattr(record, part) for part in PARTS)
    np.testing.assert_array_equal(total, record.window_ps)
    for part in PARTS:
        assert (getattr(record, part) >= 0).all(), part
    assert (record.in_transfer_ps >= 0).all()


def _assert_same_log(one: RawLog, other: RawLog) -> None:
    """Two engines wrote down the same, to the bit; snapshots where both took one."""
    np.testing.assert_array_equal(one.marks_ps, other.marks_ps)
    common = sorted(one.snapshots.keys() & other.snapshots.keys())
    assert common
    for step in common:
        np.testing.assert_array_equal(one.snapshots[step], other.snapshots[step], err_msg=f"step {step}")
    assert one.intervals_ps == other.intervals_ps
    assert one.lag_ps == other.lag_ps
    np.testing.assert_array_equal(one.staleness, other.staleness)
    np.testing.assert_array_equal(one.collective_bytes, other.collective_bytes)
    assert one.free_running == other.free_running
    assert one.clock_gap_max == other.clock_gap_max


def _assert_same_record(one: Record, other: Record) -> None:
    """All that is measured is the same, to the bit, but for the engine's name."""
    for name in one.__dataclass_fields__:
        if name in ("engine", "raw"):
            continue
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


# ---------------------------------------------------------------------------------- jobs at random


# Mostly of one order, so that more than one bucket matters; some empty or next to nothing.
_sizes = st.one_of(*3 * [st.integers(10**6, 2 * 10**7)], st.sampled_from([0, 1, 1000]))
_cv = st.sampled_from([0.0, 0.0, 0.01, 0.1, 0.5])


@st.composite
def _jobs(
    draw: Any,
    *,
    schemes: st.SearchStrategy[tuple[str, dict[str, Any]]],
    max_ranks: int = 40,
    max_steps: int = 24,
    jitter: bool = True,
    min_ranks: int = 1,
) -> Job:
    """Jobs over all that a scenario can say; communication takes .05 to 5 times what computation does."""
    scheme, options = draw(schemes)
    ranks = draw(st.integers(min_ranks, max_ranks))
    ranks_per_node = draw(st.integers(1, 7))
    buckets = draw(st.integers(1, 6))
    seconds = st.floats(1e-3, 1.0)
    backward = draw(st.lists(seconds, min_size=buckets, max_size=buckets))
    sizes = draw(st.lists(_sizes, min_size=buckets, max_size=buckets))
    forward = draw(st.one_of(st.just(0.0), seconds))
    compute = forward + sum(backward)
    ratio = draw(st.floats(0.05, 5.0))
    bandwidth = 2 * sum(sizes) / (ratio * compute) or 1e9
    parts = Jitter()
    slowdown = None
    if jitter:
        parts = Jitter(persistent=draw(_cv), node=draw(_cv), independent=draw(_cv))
        if draw(st.booleans()):
            slowdown = draw(st.lists(st.sampled_from([1.0, 1.0, 1.3, 2.0]), min_size=ranks, max_size=ranks))
    return _make_job(
        scheme,
        options=options,
        ranks=ranks,
        ranks_per_node=ranks_per_node,
        forward_s=forward,
        backward_s=backward,
        sizes=sizes,
        update_s=draw(st.one_of(st.just(0.0), st.floats(0.0, 0.2))),
        latency_s=draw(st.sampled_from([0.0, 1.5e-6, 1e-3, 0.3])),
        bandwidth=bandwidth,
        algorithm=draw(st.sampled_from(["auto", "ring", "tree"])),
        width=draw(st.integers(1, 4)),
        holds=draw(st.booleans()),
        jitter=parts,
        slowdown=slowdown,
        seed=draw(st.integers(0, 1000)),
        replication=draw(st.integers(0, 3)),
        steps=draw(st.integers(2, max_steps)),
    )


_all_reduce_schemes = st.tuples(
    st.just("pseudo-sync"),
    st.fixed_dictionaries(
        {"delay": st.integers(0, 4), "overlap": st.booleans(), "warmup_steps": st.sampled_from([0, 0, 1, 5])}
    ),
)

_server_schemes = st.tuples(
    st.just("async"),
    st.fixed_dictionaries(
        {
            "bound": st.sampled_from([None, None, 0, 1, 3]),
            "servers": st.integers(1, 4),
            "placement": st.sampled_from(["colocated", "dedicated"]),
        }
    ),
)


@pytest.fixture(scope="session")
def make_job() -> Callable[..., Job]:
    """Makes a job from what differs from the default: 4 ranks, one bucket, 1 s of compute, no jitter."""
    return _make_job


@pytest.fixture(scope="session")
def record_of() -> Callable[..., Record]:
    """Runs a job on an engine (events by default) and measures it."""
    return _record_of


@pytest.fixture(scope="session")
def step_s() -> Callable[[Record], float]:
    """The measured step of a record, mean over ranks, in seconds."""
    return _step_s


@pytest.fixture(scope="session")
def assert_parts_add_up() -> Callable[[Record], None]:
    """Fails unless the six parts are not negative and add up to the window on every rank, exactly."""
    return _assert_parts_add_up


@pytest.fixture(scope="session")
def assert_same_log() -> Callable[[RawLog, RawLog], None]:
    """Fails unless two raw logs are equal to the bit."""
    return _assert_same_log


@pytest.fixture(scope="session")
def assert_same_record() -> Callable[[Record, Record], None]:
    """Fails unless two records are equal to the bit."""
    return _assert_same_record


@pytest.fixture(scope="session")
def all_reduce_jobs() -> st.SearchStrategy[Job]:
    """Jobs of delayed all-reduce schemes."""
    return _jobs(schemes=_all_reduce_schemes)


@pytest.fixture(scope="session")
def server_jobs() -> st.SearchStrategy[Job]:
    """Jobs of parameter-server schemes."""
    return _jobs(schemes=_server_schemes, max_ranks=12, max_steps=16)


@pytest.fixture(scope="session")
def jobs() -> Callable[..., st.SearchStrategy[Job]]:
    """A strategy of jobs of given schemes, for what the others do not cover."""
    return _jobs
