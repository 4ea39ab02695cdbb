"""pssim predicts how distributed deep-learning training scales.

>>> import pssim
>>> result = pssim.run(pssim.load("tianhe2-resnet50"))  # doctest: +SKIP

Names are imported when they are first used, so that ``import pssim`` costs nothing.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pssim.api import run
    from pssim.program import (
        ANY,
        AllReduce,
        Backward,
        Compute,
        Forward,
        Load,
        Message,
        NoClosedForm,
        Program,
        Rank,
        Receive,
        Scheme,
        Send,
        StepCosts,
        Update,
        Wait,
        register,
    )
    from pssim.scenario import Loaded, load

__all__ = [
    "ANY",
    "AllReduce",
    "Backward",
    "Compute",
    "Forward",
    "Load",
    "Loaded",
    "Message",
    "NoClosedForm",
    "Program",
    "Rank",
    "Receive",
    "Scheme",
    "Send",
    "StepCosts",
    "Update",
    "Wait",
    "__version__",
    "load",
    "register",
    "run",
]

_ELSEWHERE = {"run": "pssim.api", "load": "pssim.scenario", "Loaded": "pssim.scenario"}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("pssim")
    if name not in __all__:
        raise AttributeError(f"module 'pssim' has no attribute {name!r}")
    return getattr(import_module(_ELSEWHERE.get(name, "pssim.program")), name)


def __dir__() -> list[str]:
    return sorted(__all__)


class _Package(ModuleType):
    """This module; importing the module ``pssim.run`` must not take the name from the function."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name == "run" and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
