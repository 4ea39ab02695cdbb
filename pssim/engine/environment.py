"""SimPy's environment with time in whole picoseconds."""

from __future__ import annotations

from typing import cast

from simpy import Environment, Event
from simpy.events import EventPriority

__all__ = ["LAST", "PicosecondEnvironment", "process_now", "trigger"]

# SimPy's priorities are 0 (urgent) and 1 (normal); what has this one comes after all else of its instant.
LAST = cast(EventPriority, 2)


class PicosecondEnvironment(Environment):
    """An environment whose clock is an integer.

    SimPy keeps the type of its times: as long as every delay is an int, so is the clock.
    """

    def __init__(self) -> None:
        super().__init__(initial_time=0)

    @property
    def now(self) -> int:
        """The current time in picoseconds."""
        return self._now  # type: ignore[return-value]


def trigger(env: Environment, event: Event) -> None:
    """Let an event happen after everything else of this instant."""
    event._ok = True
    event._value = None
    env.schedule(event, priority=LAST)


def process_now(event: Event) -> None:
    """Let an event happen at once: a turn of the event queue less, where nothing else is due before it."""
    event._ok = True
    event._value = None
    callbacks, event.callbacks = event.callbacks, None  # type: ignore[assignment]
    for callback in callbacks:
        callback(event)
