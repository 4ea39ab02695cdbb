"""The exceptions of pssim, one tree.

::

    PssimError                      exit code
    ├── InputError                  2   something the user wrote cannot be used
    │   ├── UnitError               2   a quantity that cannot be read
    │   ├── ScenarioError           2   one or more faults in a scenario, all of them at once
    │   ├── CatalogueError          2   no such scenario, profile or device
    │   ├── ProfileError            2   a profile or device file that is missing, corrupt or unusable
    │   ├── SchemeError             2   a scheme that cannot be loaded, or a program that breaks the rules
    │   │   └── StalledError        2   a run that cannot progress: who waits for what, since when
    │   ├── EngineError             2   an engine that was asked for a job it does not support
    │   ├── OutputError             2   results that cannot be written where they were asked for
    │   └── MissingExtraError       2   a command that needs an optional dependency
    └── CheckFailed                 1   a comparison that did not hold

Anything else that reaches the command line is a defect of pssim: exit code 3.

Every class takes one string, the whole message, so that ``type(e)(*e.args)`` rebuilds it: SimPy
re-creates exceptions that cross a process in exactly that way.
"""

from __future__ import annotations

__all__ = [
    "CatalogueError",
    "CheckFailed",
    "EngineError",
    "InputError",
    "MissingExtraError",
    "OutputError",
    "ProfileError",
    "PssimError",
    "ScenarioError",
    "SchemeError",
    "StalledError",
    "UnitError",
]


class PssimError(Exception):
    """Whatever pssim raises on purpose; the message is meant for the person at the keyboard."""

    exit_code = 2


class InputError(PssimError):
    """Something the user wrote cannot be used."""


class UnitError(InputError, ValueError):
    """A quantity that cannot be read."""


class ScenarioError(InputError):
    """Faults in a scenario, one a line, each with the place where it was written."""


class CatalogueError(InputError):
    """No scenario, profile or device of that name."""


class ProfileError(InputError):
    """A profile or device file that is missing, corrupt or unusable for this scenario."""


class SchemeError(InputError):
    """A scheme that cannot be loaded, or whose program breaks the rules of design.md."""


class StalledError(SchemeError):
    """A run that cannot progress; the message names who waits for what since when."""


class EngineError(InputError):
    """An engine that was asked for a job it does not support."""


class OutputError(InputError):
    """Results that cannot be written where they were asked for."""


class MissingExtraError(InputError):
    """A command that needs an optional dependency which is not installed."""


class CheckFailed(PssimError):
    """A comparison that was asked for did not hold."""

    exit_code = 1
