"""Progress on stderr: nothing for two seconds, then a bar on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TextIO

__all__ = ["ProgressLine"]

_SILENT_S = 2.0
_BETWEEN_LINES_S = 10.0


class ProgressLine:
    """A ``progress(done, total, text)`` that says how far a run is and how long it will still take.

    Use it as a context manager, so that a bar is taken off the terminal in the end.  Whatever cannot
    be printed is dropped: a closed stderr must not end a run.
    """

    def __init__(
        self, stream: TextIO | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._began_s = clock()
        self._printed_s = -float("inf")
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: int, total: int, text: str) -> None:
        """``done`` of ``total`` pieces of about equal work are ready; ``text`` says what is being done."""
        now_s = self._clock()
        if now_s - self._began_s < _SILENT_S:
            return
        left = self._left(done, total, now_s)
        try:
            if self._stream.isatty():
                self._draw(done, total, text, left)
            elif now_s - self._printed_s >= _BETWEEN_LINES_S:
                self._printed_s = now_s
                self._stream.write(f"pssim: {done} of {total} done{left}: {text}\n")
                self._stream.flush()
        except (OSError, ValueError):
            return

    def _left(self, done: int, total: int, now_s: float) -> str:
        if not 0 < done < total:
            return ""
        seconds = (now_s - self._began_s) * (total - done) / done
        return f", about {_spell(seconds)} left"

    def _draw(self, done: int, total: int, text: str, left: str) -> None:
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

            # Redrawn by hand: a thread of its own would not survive the forking of worker processes.
            self._bar = Progress(
                BarColumn(bar_width=30),
                MofNCompleteColumn(),
                TextColumn("{task.description}"),
                console=Console(file=self._stream),
                transient=True,
                auto_refresh=False,
            )
            self._task = self._bar.add_task("", total=total)
            self._bar.start()
        self._bar.update(self._task, completed=done, total=total, description=f"{text}{left}", refresh=True)


def _spell(seconds: float) -> str:
    """A duration as people say it; never more exact than an estimate deserves."""
    if seconds < 60:
        return f"{max(round(seconds), 1)} s"
    if seconds < 3600:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"
