"""pssim predicts how distributed deep-learning training scales.

>>> import pssim
>>> result = pssim.run(pssim.load("tianhe2-resnet50"))  # doctest: +SKIP

Names are imported when they are first used, so that ``import pssim`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pssim.program import (
        ANY,
        AllReduce,
        Backward,
        Compute,
        Forward,
        Load,
        Message,
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
    from pssim.run import run
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

_ELSEWHERE = {"run": "pssim.run", "load": "pssim.scenario", "Loaded": "pssim.scenario"}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("pssim")
    if name not in __all__:
        raise AttributeError(f"module 'pssim' has no attribute {name!r}")
    value = getattr(import_module(_ELSEWHERE.get(name, "pssim.program")), name)
    # pssim.run is also a module, and importing that binds it here: the function is what is meant.
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
