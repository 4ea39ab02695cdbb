"""The two simulating engines give the same numbers, to the last bit, wherever both can run a job."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pssim.engine import events, vector
from pssim.engine.record import ROWS
from pssim.program import AllReduce, Backward, Compute, Forward, Program, Rank, Scheme, Update, Wait

EXAMPLES = max(250, settings().max_examples)


class EverySecondStep(Scheme):
    """Averages every second step only, computes something of its own, and waits last handle first."""

    backwards: bool = True
    flush: bool = False

    def worker(self, rank: Rank) -> Program:
        handles: list[Any] = []
        for step in rank.steps():
            yield Forward()
            gradients = []
            for bucket in rank.buckets:
                gradients.append((yield Backward(bucket)))  # noqa: PERF401  (a yield)
            yield Compute("compress", 0.01 * (step + 1))
            if step % 2 == 0:
                handles = []
                for gradient in gradients:
                    handles.append((yield AllReduce(gradient)))
            else:
                values = yield Wait(*(reversed(handles) if self.backwards else handles))
                yield Update(values)
        if self.flush:
            for gradient in gradients:
                handles.append((yield AllReduce(gradient)))
            yield Update((yield Wait(*handles)))

    def pattern(self) -> int:
        return 2


class LocalSteps(Scheme):
    """Never communicates."""

    def worker(self, rank: Rank) -> Program:
        for _ in rank.steps():
            yield Forward()
            gradients = []
            for bucket in rank.buckets:
                gradients.append((yield Backward(bucket)))  # noqa: PERF401  (a yield)
            yield Update(gradients)


class WaitsTwice(Scheme):
    """Waits for a handle that is done already, and for none, and issues collectives while others wait."""

    def worker(self, rank: Rank) -> Program:
        for _ in rank.steps():
            yield Forward()
            first = yield AllReduce((yield Backward(rank.buckets[0])))
            values = yield Wait(first)
            second = yield AllReduce(values[0])
            yield Wait()
            yield Wait(first, second, first)
            yield Update(values)


@given(data=st.data())
@settings(max_examples=EXAMPLES)
def test_engines_agree_to_the_bit(
    data: Any, all_reduce_jobs: Any, record_of: Any, assert_same_log: Any, assert_same_record: Any
) -> None:
    """Step marks, totals, intervals, lags, staleness and the measured record of 250 random jobs are equal."""
    job = data.draw(all_reduce_jobs)
    one, other = events.simulate(job), vector.simulate(job)
    assert_same_log(one, other)
    assert_same_record(record_of(job, raw=one), record_of(job, raw=other))


@pytest.mark.parametrize(
    "scheme",
    [
        EverySecondStep(),
        EverySecondStep(backwards=False),
        EverySecondStep(flush=True),
        LocalSteps(),
        WaitsTwice(),
    ],
    ids=["backwards", "forwards", "flush", "local", "twice"],
)
@given(data=st.data())
@settings(max_examples=max(20, settings().max_examples // 5))
def test_engines_agree_on_a_scheme_they_have_never_seen(
    scheme: Scheme,
    data: Any,
    jobs: Callable[..., Any],
    make_job: Any,
    record_of: Any,
    assert_same_log: Any,
    assert_same_record: Any,
) -> None:
    """Waiting in another order than issued, extra computation, steps without an all-reduce: no difference."""
    job = data.draw(jobs(schemes=st.just((scheme, {})), max_ranks=12))
    one, other = events.simulate(job), vector.simulate(job)
    assert_same_log(one, other)
    assert_same_record(record_of(job, raw=one), record_of(job, raw=other))


def test_engines_agree_at_a_thousand_ranks(make_job: Any, assert_same_log: Any) -> None:
    """Size brings nothing new: 1,000 ragged ranks, 8 buckets, all three parts of jitter."""
    from pssim.cluster import Jitter

    job = make_job(
        "pseudo-sync", options={"delay": 2}, ranks=1000, ranks_per_node=24, backward_s=(0.075,) * 8,
        sizes=(3 * 10**7,) * 8, latency_s=1.5e-6, update_s=0.01, width=2,
        jitter=Jitter(0.02, 0.05, 0.1), steps=12,
    )  # fmt: skip
    assert_same_log(events.simulate(job), vector.simulate(job))


def test_snapshots_hold_every_part(make_job: Any) -> None:
    """What is compared above is there: a row a part, and at least the beginning and the end of a window."""
    for engine in (events, vector):
        raw = engine.simulate(make_job("pseudo-sync", steps=10))
        assert len(raw.snapshots) >= 2
        assert all(totals.shape == (ROWS, 4) for totals in raw.snapshots.values())
        assert raw.snapshots[10].sum() > 0


def test_events_runs_where_the_vector_engine_cannot_be_imported(tmp_path: Path) -> None:
    """The reference does not lean on the engine it is the reference for."""
    program = textwrap.dedent(
        """
        import sys

        class Refuse:
            def find_spec(self, name, path=None, target=None):
                if name == "pssim.engine.vector":
                    raise ImportError("not to be imported")

        sys.meta_path.insert(0, Refuse())
        from pssim.cluster import Jitter, JitterSource, fill_nodes
        from pssim.engine import events
        from pssim.engine.job import Job, server_nodes
        from pssim.engine.measure import measure
        from pssim.network import Link, Network
        from pssim.registry import find_variant
        from pssim.workload.step import Bucket, StepWorkload

        placement = fill_nodes(5, 2)
        buckets = (Bucket(0, 10**8, 0.3, 1), Bucket(1, 10**8, 0.3, 1))
        workload = StepWorkload(0.4, buckets, 0.01, 32, False, ())
        network = Network(Link(1e-6, 1e9), Link(1e-6, 1e10))
        for name in ("sync", "sync-overlap", "pseudo-sync", "async", "ssp"):
            scheme = find_variant(name).build({})
            servers = server_nodes(1, False, 3) if scheme.has_server else ()
            source = JitterSource(Jitter(0.1, 0.1, 0.1), placement)
            job = Job(name, scheme, placement, workload, network, source, 12, servers)
            raw = events.simulate(job)
            record = measure(raw, pattern=2, warm_up=0, update_ps=sum(job.update_ps))
            assert record.window_ps.min() > 0
            print(name, raw.marks_ps[-1].tolist())
        try:
            import pssim.engine.vector
        except ImportError:
            print("refused")
        """
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    names = [line.split()[0] for line in ran.stdout.splitlines()]
    assert names == ["sync", "sync-overlap", "pseudo-sync", "async", "ssp", "refused"]
