"""Programs that break the rules: one clear error that names the culprit; never a hang or a traceback."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from pssim import errors
from pssim.engine import events, vector
from pssim.errors import EngineError, SchemeError, StalledError
from pssim.program import (
    ANY,
    AllReduce,
    Backward,
    Compute,
    Forward,
    Load,
    Program,
    Rank,
    Receive,
    Scheme,
    Send,
    Update,
    Wait,
)
from pssim.registry import find_variant
from pssim.run import simulate

ENGINES = [events, vector]
both = pytest.mark.parametrize("engine", ENGINES, ids=["events", "vector"])


class Faulty(Scheme):
    """Synchronous training with something wrong at the end of each step."""

    what: str

    def worker(self, rank: Rank) -> Program:
        for _ in rank.steps():
            yield Forward()
            gradient = yield Backward(rank.buckets[0])
            handle = yield AllReduce(gradient)
            yield MISTAKES[self.what](gradient, handle)
            yield Update((yield Wait(handle)))


MISTAKES: dict[str, Callable[[Any, Any], Any]] = {
    "waits for nothing": lambda gradient, handle: Wait(None),
    "forgets the star": lambda gradient, handle: Wait([handle]),
    "waits for a gradient": lambda gradient, handle: Wait(gradient),
    "waits for a number": lambda gradient, handle: Wait(3),
    "yields a class": lambda gradient, handle: Forward,
    "yields nothing": lambda gradient, handle: None,
    "yields a number": lambda gradient, handle: 3,
    "reduces a handle": lambda gradient, handle: AllReduce(handle),
    "reduces an action": lambda gradient, handle: AllReduce(Backward(handle)),
    "updates with nothing": lambda gradient, handle: Update(None),  # type: ignore[arg-type]
    "updates with one gradient": lambda gradient, handle: Update(gradient),
    "updates with handles": lambda gradient, handle: Update([handle]),
    "goes back to no bucket": lambda gradient, handle: Backward(None),  # type: ignore[arg-type]
    "goes back to a number": lambda gradient, handle: Backward(3),  # type: ignore[arg-type]
    "computes backwards in time": lambda gradient, handle: Compute("x", -1.0),
    "computes for NaN": lambda gradient, handle: Compute("x", float("nan")),
    "computes for ever": lambda gradient, handle: Compute("x", float("inf")),
    "computes for a text": lambda gradient, handle: Compute("x", "1 s"),  # type: ignore[arg-type]
}

BETWEEN_RANKS: dict[str, Callable[[Any, Any], Any]] = {
    "loads a number": lambda gradient, handle: Load(3),
    "loads a gradient": lambda gradient, handle: Load(gradient),
    "receives from nowhere": lambda gradient, handle: Receive(99),
    "receives from a name": lambda gradient, handle: Receive("rank 1"),  # type: ignore[arg-type]
    "sends to nowhere": lambda gradient, handle: Send(gradient, to=99),
    "sends to a negative address": lambda gradient, handle: Send(gradient, to=-1),
    "sends a handle": lambda gradient, handle: Send(handle, to=0),
}
MISTAKES |= BETWEEN_RANKS


@both
@pytest.mark.parametrize("what", [name for name in MISTAKES if name not in BETWEEN_RANKS])
def test_a_mistake_is_named(engine: Any, what: str, make_job: Any) -> None:
    """Whatever a program yields that no engine can do is a SchemeError that names the scheme."""
    with pytest.raises(SchemeError, match="Faulty"):
        engine.simulate(make_job(Faulty(what=what), steps=3))


@pytest.mark.parametrize("what", list(BETWEEN_RANKS))
def test_a_mistake_with_messages_is_named(what: str, make_job: Any) -> None:
    """Addresses that do not exist, and values that no action gave."""
    with pytest.raises(SchemeError, match="Faulty"):
        events.simulate(make_job(Faulty(what=what), steps=3))


@both
def test_a_class_in_place_of_an_action_says_how_to_write_it(engine: Any, make_job: Any) -> None:
    """The usual slip: ``yield Forward`` without its brackets."""
    with pytest.raises(SchemeError, match=r"call it: Forward\(\)"):
        engine.simulate(make_job(Faulty(what="yields a class")))


@both
def test_a_forgotten_star_says_how_to_write_it(engine: Any, make_job: Any) -> None:
    """The other usual slip: ``Wait(handles)`` for ``Wait(*handles)``."""
    with pytest.raises(SchemeError, match=r"Wait\(\*"):
        engine.simulate(make_job(Faulty(what="forgets the star")))


# ------------------------------------------------------------------------------------------ its shape


class NoProgram(Scheme):
    """Returns a list of actions."""

    def worker(self, rank: Rank) -> Program:
        return [Forward()]  # type: ignore[return-value]


class Nothing(Scheme):
    """Has no worker."""


class StopsEarly(Scheme):
    """Leaves the loop after the first step."""

    def worker(self, rank: Rank) -> Program:
        for _ in rank.steps():
            yield Forward()
            return


class CountsItself(Scheme):
    """Does not use rank.steps()."""

    def worker(self, rank: Rank) -> Program:
        for _ in range(3):
            yield Forward()


class StepsTwice(Scheme):
    """Loops over the steps within the first step."""

    def worker(self, rank: Rank) -> Program:
        for _ in rank.steps():
            for _ in rank.steps():
                yield Forward()


class Endless(Scheme):
    """Never comes to the next step."""

    cost_s: float = 0.0

    def worker(self, rank: Rank) -> Program:
        for _ in rank.steps():
            while True:
                yield Compute("spin", self.cost_s)


@both
@pytest.mark.parametrize(
    ("scheme", "message"),
    [
        (NoProgram(), r"NoProgram must be a generator"),
        (Nothing(), r"Nothing: a scheme must define worker"),
        (StopsEarly(), r"StopsEarly ended in step 0 of 40"),
        (CountsItself(), r"CountsItself computes outside of a step"),
        (StepsTwice(), r"StepsTwice.*steps\(\)"),
        (Endless(), r"Endless took [\d,]+ actions in step 0"),
        (Endless(cost_s=1e-3), r"Endless took [\d,]+ actions in step 0"),
    ],
    ids=["no generator", "no worker", "early", "no steps", "twice", "endless", "endless in time"],
)
def test_a_program_of_the_wrong_shape(engine: Any, scheme: Scheme, message: str, make_job: Any) -> None:
    """Not a generator, not all the steps, or never the next one: an error that says which."""
    with pytest.raises(SchemeError, match=message):
        engine.simulate(make_job(scheme))


class Serving(Scheme):
    """Pushes and pulls; the server does something else."""

    has_server: ClassVar[bool] = True
    what: str

    def worker(self, rank: Rank) -> Program:
        for _ in rank.steps():
            yield Forward()
            yield Send((yield Backward(rank.buckets[0])), to=rank.servers[0])
            yield Receive(rank.servers[0])

    def server(self, rank: Rank) -> Program:
        while self.what == "polls":
            yield Compute("poll", 1e-3)
        while self.what == "spins":
            yield Update([])
        push = yield Receive(ANY)
        if self.what == "reduces":
            yield AllReduce(push.value)
        if self.what == "steps":
            for _ in rank.steps():
                yield Receive(ANY)
        while self.what == "is silent":
            yield Receive(ANY)


@pytest.mark.parametrize("what", ["polls", "spins", "reduces", "steps"])
def test_a_server_that_does_not_serve(what: str, make_job: Any) -> None:
    """A server that goes round in circles, or takes itself for a worker."""
    with pytest.raises(SchemeError, match="server 0") as caught:
        events.simulate(make_job(Serving(what=what), ranks=3))
    assert not isinstance(caught.value, StalledError)


# --------------------------------------------------------------------------------------- cannot progress


class Mismatched(Scheme):
    """Rank 2 reduces its buckets in the other order."""

    def worker(self, rank: Rank) -> Program:
        for _ in rank.steps():
            yield Forward()
            gradients = []
            for bucket in rank.buckets:
                gradients.append((yield Backward(bucket)))  # noqa: PERF401  (a yield)
            for gradient in gradients[::-1] if rank.index == 2 else gradients:
                yield Wait((yield AllReduce(gradient)))


class Skips(Scheme):
    """Rank 1 leaves out an all-reduce in step 2."""

    wait: bool = True

    def worker(self, rank: Rank) -> Program:
        for step in rank.steps():
            yield Forward()
            gradient = yield Backward(rank.buckets[0])
            if rank.index == 1 and step == 2:
                continue
            handle = yield AllReduce(gradient)
            if self.wait:
                yield Wait(handle)


class Unanswered(Scheme):
    """Every rank waits for a message from the next, and nobody sends one."""

    def worker(self, rank: Rank) -> Program:
        for _ in rank.steps():
            yield Forward()
            yield Receive((rank.index + 1) % rank.world)


def test_mismatched_collectives_name_ranks_and_operations(make_job: Any) -> None:
    """Collectives match by issue order: sizes that differ are an error, not a wrong average."""
    job = make_job(Mismatched(), backward_s=(0.3, 0.3), sizes=(10**6, 10**7))
    with pytest.raises(SchemeError, match=r"do not match.*rank 2|rank 2.*do not match") as caught:
        events.simulate(job)
    for part in ("all-reduce number 0", "1000000 bytes", "10000000 bytes", "rank 2"):
        assert part in str(caught.value)


def test_a_skipped_all_reduce_is_named(make_job: Any) -> None:
    """Who waits, for which all-reduce, which rank is missing, and since when."""
    job = make_job(Skips(), ranks=3, latency_s=0.0, sizes=(75 * 10**6,), steps=6)
    with pytest.raises(StalledError) as caught:
        events.simulate(job)
    # After six forward and backward passes and five all-reduces, rank 1 being one all-reduce behind.
    lines = str(caught.value).splitlines()
    assert re.search(r"Skips cannot progress at \d+(\.\d+)? s", lines[0])
    for rank in (0, 2):
        waits = rf"\s*rank {rank} waits for all-reduce number 5, which lacks rank 1, since .* s, in step 5"
        assert any(re.match(waits, line) for line in lines[1:]), caught.value
    assert not any(line.strip().startswith("rank 1 waits") for line in lines)


def test_an_all_reduce_nobody_waits_for_but_one_skips(make_job: Any) -> None:
    """It is found at the end of the run at the latest."""
    with pytest.raises(StalledError, match=r"all-reduce number 5.*never joined by rank 1"):
        events.simulate(make_job(Skips(wait=False), ranks=3, steps=6))


def test_messages_nobody_sends_are_named_for_every_rank(make_job: Any) -> None:
    """Each waiting rank, whom it waits for, and since when."""
    with pytest.raises(StalledError) as caught:
        events.simulate(make_job(Unanswered(), ranks=3, forward_s=0.25))
    text = str(caught.value)
    for rank in range(3):
        assert f"rank {rank} waits for a message from rank {(rank + 1) % 3} since 0.25 s, in step 0" in text


def test_a_silent_server_is_named(make_job: Any) -> None:
    """Workers wait for the server, the server for anybody."""
    with pytest.raises(StalledError) as caught:
        events.simulate(make_job(Serving(what="is silent"), ranks=2))
    text = str(caught.value)
    assert "rank 0 waits for a message from server 0" in text
    assert "rank 1 waits for a message from server 0" in text
    assert "server 0 waits for a message from anybody" in text


def test_a_thousand_stalled_ranks_do_not_fill_the_screen(make_job: Any) -> None:
    """Some are named, the rest are counted."""
    with pytest.raises(StalledError, match="more ranks") as caught:
        events.simulate(make_job(Unanswered(), ranks=1000))
    assert len(str(caught.value).splitlines()) < 30


# ---------------------------------------------------------------------------------- in a user's own file


def write_scheme(folder: Path, body: str) -> Scheme:
    text = (
        "from pssim.program import AllReduce, Backward, Forward, Scheme, Update, Wait\n"
        "\n"
        "class Mine(Scheme):\n"
        "    def worker(self, rank):\n"
        "        for step in rank.steps():\n"
        "            yield Forward()\n"
        f"            {body}\n"
    )
    (folder / "mine.py").write_text(text)
    return find_variant("mine.py:Mine", folder).build({})


@both
def test_an_exception_is_reported_with_file_and_line(engine: Any, tmp_path: Path, make_job: Any) -> None:
    """Line 7 of the user's file, and what went wrong there."""
    scheme = write_scheme(tmp_path, "gradient = rank.buckets[17]")
    with pytest.raises(SchemeError, match=r"mine\.py:7: .*IndexError") as caught:
        engine.simulate(make_job(scheme))
    assert str(tmp_path / "mine.py") in str(caught.value)


@both
def test_an_exception_in_a_library_names_the_users_line(engine: Any, tmp_path: Path, make_job: Any) -> None:
    """The last line that is the user's own, not the library's."""
    scheme = write_scheme(tmp_path, "import json; json.loads('{')")
    with pytest.raises(SchemeError, match=r"mine\.py:7: .*JSONDecodeError"):
        engine.simulate(make_job(scheme))


def test_a_file_that_does_not_import_names_its_line(tmp_path: Path) -> None:
    """At import as in the program."""
    (tmp_path / "broken.py").write_text("import math\n\nx = math.nothing\n")
    with pytest.raises(SchemeError, match=r"broken\.py:3: AttributeError"):
        find_variant("broken.py:Mine", tmp_path)
    (tmp_path / "syntax.py").write_text("import math\nclass Mine(:\n")
    with pytest.raises(SchemeError, match=r"syntax\.py:2: SyntaxError"):
        find_variant("syntax.py:Mine", tmp_path)


# --------------------------------------------------------------------------------- programs of one rank


class ReadsIndex(Scheme):
    """Only even ranks compute; from step ``late`` on."""

    late: int = 0
    swallow: bool = False

    def worker(self, rank: Rank) -> Program:
        for step in rank.steps():
            yield Forward()
            gradient = yield Backward(rank.buckets[0])
            if step >= self.late:
                try:
                    index = rank.index
                except Exception:
                    if not self.swallow:
                        raise
                    index = 1
                if index % 2 == 0:
                    yield Compute("more", 0.5)
            yield Update((yield Wait((yield AllReduce(gradient)))))


def test_a_program_that_reads_its_index_runs_on_events(make_job: Any) -> None:
    """``auto`` chooses the engine that can, without a word; ``vector`` refuses, with the reason."""
    job = make_job(ReadsIndex(), steps=4)
    raw, note = simulate(job, "auto")
    assert (raw.engine, note) == ("events", None)
    with pytest.raises(EngineError, match=r"vector.*ReadsIndex.*rank\.index"):
        simulate(job, "vector")


def test_a_program_that_turns_to_its_index_in_mid_run_starts_again(make_job: Any) -> None:
    """A trial of two steps does not see it: ``auto`` starts again on events and says so."""
    job = make_job(ReadsIndex(late=3), steps=6)
    raw, note = simulate(job, "auto")
    assert raw.engine == "events"
    assert note is not None
    assert "rank.index" in note
    assert "events" in note
    with pytest.raises(EngineError, match=r"rank\.index"):
        simulate(job, "vector")


def test_a_program_cannot_hide_that_it_reads_its_index(make_job: Any) -> None:
    """``except Exception`` around it does not make all ranks odd."""
    raw, _ = simulate(make_job(ReadsIndex(swallow=True), steps=4), "auto")
    assert raw.engine == "events"


@pytest.mark.parametrize("name", ["sync", "sync-overlap", "pseudo-sync"])
def test_the_fastest_engine_is_chosen(name: str, make_job: Any) -> None:
    """All-reduce schemes run as a vector of clocks, parameter servers on events."""
    assert simulate(make_job(name, steps=4), "auto")[0].engine == "vector"
    assert simulate(make_job("async", steps=4), "auto")[0].engine == "events"
    with pytest.raises(EngineError, match=r"vector.*servers"):
        simulate(make_job("ssp", steps=4), "vector")


def test_errors_survive_a_trip_between_processes() -> None:
    """SimPy and process pools rebuild exceptions from their arguments: every class takes one message."""
    for name in errors.__all__:
        kind = getattr(errors, name)
        error = kind("what, which must be, and what it got")
        assert type(error)(*error.args).args == error.args
        assert isinstance(error, errors.PssimError)
        assert error.exit_code in (1, 2)
