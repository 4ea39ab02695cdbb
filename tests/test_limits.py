"""Where pssim draws a line: what is too long, too many, or not a scheme's to say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pssim.errors import InputError, SchemeError
from pssim.program import Forward, Program, Rank, Scheme
from pssim.registry import find_variant, load_scheme_file, parse_label
from pssim.run import measured, run, simulate
from pssim.scenario import load

SMALL = ["training.nodes=[1,2]", "training.steps=6", "training.replications=1"]


@pytest.mark.parametrize("engine", ["auto", "events", "vector"])
def test_a_run_that_64_bits_cannot_hold_is_refused(engine: Any, make_job: Any) -> None:
    """In one line with the steps and what takes so long, instead of numbers that have wrapped round."""
    job = make_job("pseudo-sync", steps=1_000_000, forward_s=100.0)
    with pytest.raises(InputError, match=r"pseudo-sync on \d+ ranks: 1000000 steps .* most of it computing"):
        simulate(job, engine)


def test_servers_count_all_their_workers(make_job: Any) -> None:
    """What a server does for each worker, it does for all of them."""
    with pytest.raises(InputError, match="most of it updating"):
        simulate(make_job("async", ranks=100, steps=1000, update_s=50.0))


@pytest.mark.parametrize(
    ("method", "answer"),
    [("pattern", 0), ("pattern", 1.5), ("warm_up", -1), ("pattern", "two"), ("warm_up", True)],
)
def test_what_a_scheme_says_of_itself_is_checked(method: str, answer: object, make_job: Any) -> None:
    """A pattern of no steps or of one and a half is the scheme's fault, and says which method it was."""

    class Odd(Scheme):
        def worker(self, rank: Rank) -> Program:
            for _ in rank.steps():
                yield Forward()

    setattr(Odd, method, lambda self: answer)
    with pytest.raises(SchemeError, match=rf"{method}\(\) of Odd must be a whole number"):
        measured(make_job(Odd(), steps=4))


@pytest.mark.parametrize(
    "text", ["raise SystemExit(5)", "import sys; sys.exit()", "1 / 0", "def broken(:"]
)
def test_a_scheme_file_that_ends_the_process_only_fails(text: str, tmp_path: Path) -> None:
    """With its file and line."""
    (tmp_path / "own.py").write_text(text)
    with pytest.raises(SchemeError, match=r"own\.py:1: "):
        load_scheme_file("own.py:Own", tmp_path)


def test_a_program_that_exits_only_fails(make_job: Any) -> None:
    """On both engines."""

    class Exits(Scheme):
        def worker(self, rank: Rank) -> Program:
            for _ in rank.steps():
                yield Forward()
                raise SystemExit(7)

    for engine in ("events", "vector"):
        with pytest.raises(SchemeError, match="the program of Exits failed: SystemExit: 7"):
            simulate(make_job(Exits(), steps=4), engine)


@pytest.mark.parametrize("key", ["name", "steps", "replications"])
def test_a_label_sets_options_only(key: str) -> None:
    """The name stands before the brackets."""
    with pytest.raises(SchemeError, match=f"'{key}' is no option of a scheme"):
        parse_label(f"pseudo-sync[{key}=2]")


def test_the_label_of_a_file_does_not_name_its_folder(tmp_path: Path) -> None:
    """Results are the same wherever the file lies."""
    text = "from pssim import Scheme\nclass Own(Scheme):\n    many: int = 1\n"
    (tmp_path / "own.py").write_text(text)
    variant = find_variant(f"{tmp_path}/own.py:Own")
    assert variant.label(variant.build({"many": 2})) == "own.py:Own[many=2]"


@pytest.mark.parametrize(
    "override", ["cluster.channel.width=65", "scheme.2.delay=10001", "scheme.3.servers=100001"]
)
def test_settings_have_upper_limits(override: str) -> None:
    """Beyond which a run would end for want of memory or patience."""
    with pytest.raises(InputError, match=r"must be \d+ or less"):
        load("tianhe2-resnet50", overrides=[override])


@pytest.mark.parametrize("setting", [{"replications": 0}, {"replications": -1}, {"processes": 0}])
def test_nothing_is_run_no_times(setting: dict[str, int]) -> None:
    """Zero is not the same as not given."""
    with pytest.raises(InputError, match="must be at least 1"):
        run(load("tianhe2-resnet50", overrides=SMALL), **setting)  # type: ignore[arg-type]


def test_staleness_is_empty_where_nothing_was_updated(make_job: Any) -> None:
    """And the step alone has no update in it either: no efficiency above 1."""
    record, _ = measured(make_job("pseudo-sync", options={"delay": 50}, steps=10))
    assert record.staleness_mean is None
    assert record.staleness_max is None
    assert (record.alone_ps <= record.window_ps).all()
    assert not record.steady


@pytest.mark.parametrize(("delay", "warmup"), [(1, 0), (2, 0), (2, 7), (3, 0), (5, 2)])
def test_the_window_has_full_staleness_only(delay: int, warmup: int, make_job: Any) -> None:
    """The steps in which it still rises are cut off."""
    job = make_job("pseudo-sync", options={"delay": delay, "warmup_steps": warmup}, steps=60)
    record, _ = measured(job)
    assert record.staleness_mean == delay
