"""Progress: silent at first, then how far and how long still."""

from __future__ import annotations

import io

from pssim.cli.progress import ProgressLine


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Clock:
    """Time that passes when the test says so."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_short_runs_say_nothing():
    """Nobody needs to know that two seconds have passed."""
    stream, clock = io.StringIO(), Clock()
    with ProgressLine(stream, clock=clock) as progress:
        clock.now_s = 1.9
        progress(1, 2, "sync")
    assert stream.getvalue() == ""


def test_a_log_gets_a_line_every_ten_seconds():
    """With the time left, as far as the past tells: 3 of 12 took 3 s, so 9 more take 9 s."""
    stream, clock = io.StringIO(), Clock()
    with ProgressLine(stream, clock=clock) as progress:
        for second in range(1, 12):
            clock.now_s = second + 0.001
            progress(second, 12, "sync, 4 nodes")
    assert stream.getvalue().splitlines() == ["pssim: 2 of 12 done, about 10 s left: sync, 4 nodes"]


def test_the_time_left_is_said_as_people_say_it():
    """Seconds, minutes, hours; and nothing while nothing is known."""
    stream, clock = io.StringIO(), Clock()
    with ProgressLine(stream, clock=clock) as progress:
        for now_s, done in ((100, 1), (200, 100), (300, 0)):
            clock.now_s = now_s
            progress(done, 1000, "sync")
    lines = stream.getvalue().splitlines()
    assert "about 27.8 h left" in lines[0]
    assert "about 30 min left" in lines[1]
    assert "left" not in lines[2]


def test_a_terminal_gets_a_bar_that_goes_away():
    """And leaves the cursor visible."""
    stream, clock = Terminal(), Clock()
    with ProgressLine(stream, clock=clock) as progress:
        clock.now_s = 3.0
        progress(3, 12, "sync, 4 nodes")
        assert "3/12" in stream.getvalue()
        assert "about 9 s left" in stream.getvalue()
    assert stream.getvalue().endswith("\x1b[2K") or "\x1b[?25h" in stream.getvalue()


def test_a_closed_stderr_ends_no_run():
    """What cannot be said is not said."""
    stream, clock = io.StringIO(), Clock()
    progress = ProgressLine(stream, clock=clock)
    stream.close()
    clock.now_s = 3.0
    progress(1, 2, "sync")
