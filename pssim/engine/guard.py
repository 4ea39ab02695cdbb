"""What engines say about a program that breaks the rules: one clear line, with the line of the program."""

from __future__ import annotations

import inspect
from collections.abc import Generator
from typing import Any

from pssim.errors import PssimError, SchemeError
from pssim.program import Action, Program, Scheme

__all__ = [
    "ACTIONS_A_STEP",
    "NotLockStep",
    "advance",
    "ended_early",
    "failed",
    "is_generator",
    "not_a_gradient",
    "not_an_action",
    "too_many_actions",
]

class NotLockStep(Exception):
    """The program depends on something that differs between ranks."""


# A program that does this much in one step will never come to the next.
ACTIONS_A_STEP = 1_000_000


def advance(program: Program, result: Any, scheme: Scheme) -> Any:
    """The program's next action, or None when it has ended.

    Raise SchemeError, naming file and line, for whatever the program itself raises.
    """
    try:
        return program.send(result)
    except StopIteration:
        return None
    except (PssimError, NotLockStep):
        raise
    except Exception as error:
        raise failed(scheme, error) from error


def failed(scheme: Scheme, error: Exception) -> SchemeError:
    """A SchemeError for what the program raised, with the innermost line that is the program's own."""
    try:
        file = inspect.getsourcefile(type(scheme))
    except TypeError:
        file = None
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    where = f"{file}:{line}: " if line is not None else ""
    return SchemeError(
        f"{where}the program of {type(scheme).__name__} failed: {type(error).__name__}: {error}"
    )


def _where(scheme: Scheme) -> str:
    try:
        return f"{inspect.getsourcefile(type(scheme))}: "
    except TypeError:
        return ""


def not_an_action(scheme: Scheme, got: object) -> SchemeError:
    """The program yielded something that is not an action."""
    names = ", ".join(sorted(cls.__name__ for cls in Action.__subclasses__()))
    hint = "; call it: Forward()" if isinstance(got, type) and issubclass(got, Action) else ""
    return SchemeError(
        f"{_where(scheme)}the program of {type(scheme).__name__} must yield an action ({names}), "
        f"it yielded {got!r}{hint}"
    )


def not_a_gradient(scheme: Scheme, action: str, got: object) -> SchemeError:
    """The program passed on something that no engine gave it."""
    hint = "; write (yield Backward(bucket))" if isinstance(got, Action) else ""
    return SchemeError(
        f"{_where(scheme)}the program of {type(scheme).__name__} gave {action} {got!r}, "
        f"it must be a value that an action gave back, such as a gradient of Backward{hint}"
    )


def too_many_actions(scheme: Scheme, who: str, step: int) -> SchemeError:
    """The program goes round in circles."""
    return SchemeError(
        f"{_where(scheme)}{who} of {type(scheme).__name__} took {ACTIONS_A_STEP:,} actions in step {step} "
        "without coming to its end"
    )


def ended_early(scheme: Scheme, who: str, step: int, steps: int) -> SchemeError:
    """The program ended without taking all its steps."""
    return SchemeError(
        f"{_where(scheme)}{who} of {type(scheme).__name__} ended in step {step} of {steps}; "
        "a worker must loop over rank.steps() to its end"
    )


def is_generator(program: object) -> bool:
    """Whether a role's method is a program at all."""
    return isinstance(program, Generator)
