"""What engines say about a program that breaks the rules: one clear line, with the line of the program."""

from __future__ import annotations

import inspect
from collections.abc import Generator, Sequence
from typing import Any, NoReturn

from pssim.engine.clock import LONGEST_S
from pssim.engine.payload import Tag, WeightsTag
from pssim.errors import PssimError, SchemeError
from pssim.network import Operation
from pssim.program import Action, Backward, Compute, Load, Program, Scheme, Update, Wait

__all__ = [
    "ACTIONS_A_STEP",
    "ENDED",
    "NoStepYet",
    "NotLockStep",
    "advance",
    "asked",
    "cost_s",
    "ended_early",
    "failed",
    "misused",
    "not_a_gradient",
    "not_an_action",
    "started",
    "steps_once",
    "too_many_actions",
]

ENDED = object()
"""What :func:`advance` gives when a program has ended."""


class NotLockStep(BaseException):  # so that a program's `except Exception` does not swallow it
    """The program depends on something that differs between ranks."""


class NoStepYet:
    """In the place of a rank's durations, until there are any: says so when one is asked for."""

    def __init__(self, scheme: Scheme, who: str) -> None:
        self._scheme = scheme
        self._who = who

    def __getitem__(self, segment: int) -> NoReturn:
        raise SchemeError(
            f"{_where(self._scheme)}{self._who} of {type(self._scheme).__name__} computes outside of a step; "
            "a worker must loop over rank.steps(), and a server has no forward or backward pass"
        )


def steps_once(scheme: Scheme, who: str) -> SchemeError:
    """The program began a second loop over its steps."""
    return SchemeError(
        f"{_where(scheme)}{who} of {type(scheme).__name__}: rank.steps() can be looped over only once"
    )


# A program that does this much in one step will never come to the next.
ACTIONS_A_STEP = 100_000
_MOST = 10_000_000


def advance(program: Program, result: Any, scheme: Scheme) -> Any:
    """The program's next action, or ENDED.

    Raise SchemeError, naming file and line, for whatever the program itself raises.
    """
    try:
        return program.send(result)
    except StopIteration:
        return ENDED
    except (PssimError, NotLockStep):
        raise
    except (Exception, SystemExit) as error:
        raise failed(scheme, error) from error


def failed(scheme: Scheme, error: BaseException, what: str = "the program") -> SchemeError:
    """A SchemeError for what a scheme's code raised, with the innermost line that is its own."""
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
        f"{where}{what} of {type(scheme).__name__} failed: {type(error).__name__}: {error}"
    )


def _where(scheme: Scheme) -> str:
    try:
        return f"{inspect.getsourcefile(type(scheme))}: "
    except TypeError:
        return ""


def asked(scheme: Scheme, method: str, least: int) -> int:
    """What the scheme says of itself in a method that gives a whole number.  Raise SchemeError if unfit."""
    try:
        answer = getattr(scheme, method)()
    except PssimError:
        raise
    except (Exception, SystemExit) as error:
        raise failed(scheme, error, f"{method}()") from error
    if isinstance(answer, bool) or not isinstance(answer, int) or not least <= answer <= _MOST:
        raise SchemeError(
            f"{_where(scheme)}{method}() of {type(scheme).__name__} must be a whole number from {least} "
            f"to {_MOST:,}, it is {answer!r}"
        )
    return answer


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
    if isinstance(got, Backward) and hasattr(got.bucket, "index"):
        return SchemeError(
            f"{_where(scheme)}the program of {type(scheme).__name__} gave {action} the action Backward "
            f"itself, and not the gradient it gives{hint}"
        )
    return SchemeError(
        f"{_where(scheme)}the program of {type(scheme).__name__} gave {action} {got!r}, "
        f"it must be a value that an action gave back, such as a gradient of Backward{hint}"
    )


def too_many_actions(scheme: Scheme, who: str, during: str) -> SchemeError:
    """The program goes round in circles."""
    return SchemeError(
        f"{_where(scheme)}{who} of {type(scheme).__name__} took {ACTIONS_A_STEP:,} actions {during} "
        "without coming to its end"
    )


def misused(scheme: Scheme, action: object, error: Exception) -> Exception:
    """What to raise when carrying out ``action`` failed: a SchemeError if the program gave it unfit values.

    Anything else is a defect of pssim and stays what it is.  Looked at only when something has gone
    wrong, so that a program that does nothing wrong pays nothing for it.
    """
    fault = _fault(action)
    if fault is None:
        return error
    return SchemeError(f"{_where(scheme)}the program of {type(scheme).__name__} yielded {fault}")


def _fault(action: object) -> str | None:
    """What is wrong with the values a program put into an action."""
    if isinstance(action, Backward) and not hasattr(action.bucket, "index"):
        return f"Backward({action.bucket!r}); it must be given a bucket of rank.buckets"
    if isinstance(action, Wait):
        for handle in action.handles:
            if not (isinstance(handle, tuple) and len(handle) == 2 and isinstance(handle[0], Operation)):
                hint = "; write Wait(*handles)" if isinstance(handle, list) else ""
                return f"Wait on {handle!r}; it must be given what (yield AllReduce(...)) gave{hint}"
    if isinstance(action, Update):
        gradients = action.gradients
        if not isinstance(gradients, Sequence) or not all(isinstance(tag, Tag) for tag in gradients):
            return f"Update({gradients!r}); it must be given a list of gradients, such as Update([gradient])"
    if isinstance(action, Load) and not isinstance(action.weights, WeightsTag):
        return f"Load({action.weights!r}); it must be given weights that a message brought"
    return None


def ended_early(scheme: Scheme, who: str, step: int, steps: int) -> SchemeError:
    """The program ended without taking all its steps."""
    return SchemeError(
        f"{_where(scheme)}{who} of {type(scheme).__name__} ended in step {step} of {steps}; "
        "a worker must loop over rank.steps() to its end"
    )


def started(scheme: Scheme, role: str, program: object) -> Program:
    """The program that a role's method gave.  Raise SchemeError if it is none."""
    if not isinstance(program, Generator):
        raise SchemeError(
            f"{_where(scheme)}{role}(self, rank) of {type(scheme).__name__} must be a generator: "
            f"it must yield actions, it returned {program!r}"
        )
    return program


def cost_s(scheme: Scheme, action: Compute) -> float:
    """The cost of an extra computation.  Raise SchemeError if it is no duration."""
    cost = action.cost_s
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0.0 <= cost <= LONGEST_S:
        raise SchemeError(
            f"{_where(scheme)}the program of {type(scheme).__name__} yielded "
            f"Compute({action.name!r}, {cost!r}); "
            f"the cost must be a number of seconds between 0 and {LONGEST_S:g}"
        )
    return float(cost)
