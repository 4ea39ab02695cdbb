"""Reads a clock at every layer of one training pass: seconds for times, a FLOP counter for work."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

__all__ = ["Watch", "leaves", "one_pass"]

Number = TypeVar("Number", int, float)


def leaves(model: nn.Module, loss: nn.Module) -> dict[str, nn.Module]:
    """The modules that compute, by name: those without children, and the loss as the last layer."""
    found = {
        name: module
        for name, module in model.named_modules()
        if name and not isinstance(module, nn.Sequential) and next(module.children(), None) is None
    }
    return (found or {"model": model}) | {"loss": loss}


def one_pass(
    model: nn.Module, loss: nn.Module, samples: Tensor, targets: Tensor, clock: Callable[[], Number]
) -> tuple[Number, Number]:
    """What the forward pass with its loss, and the backward pass, take on this clock."""
    model.zero_grad(set_to_none=True)
    start = clock()
    value = loss(model(samples), targets)
    middle = clock()
    value.backward()
    return middle - start, clock() - middle


class Watch(Generic[Number]):
    """Hooks on a model that split one pass over its layers and gradients; a context manager.

    A layer's forward runs from the end of the layer before it, so that what happens between layers
    (an addition, a reshape) goes to the later one.  A gradient's share of backward runs from the
    arrival of the gradient before it; the first is counted from the start of backward, and what is left
    when the last has arrived belongs to the last.  So the shares add up to the whole.
    """

    def __init__(self, model: nn.Module, loss: nn.Module, clock: Callable[[], Number]) -> None:
        self.model = model
        self.loss = loss
        self.clock: Callable[[], Number] = clock
        self.forward: dict[str, Number] = {}
        self.backward: dict[str, Number] = {}
        self._mark: Number = clock()
        self._handles: list[RemovableHandle] = []

    def __enter__(self) -> Self:
        for name, module in leaves(self.model, self.loss).items():
            self._handles.append(module.register_forward_hook(partial(self._layer_done, name)))
        for name, parameter in self.model.named_parameters():
            hook = partial(self._gradient_here, name)
            self._handles.append(
                parameter.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def run(self, samples: Tensor, targets: Tensor) -> tuple[Number, Number]:
        """One pass: fills ``forward`` and ``backward``, in order of events, and gives their sums."""
        self.forward, self.backward = {}, {}
        self.model.zero_grad(set_to_none=True)
        start = self._mark = self.clock()
        value = self.loss(self.model(samples), targets)
        middle = self._mark
        value.backward()
        if self.backward:
            self._charge(self.backward, next(reversed(self.backward)))
        return middle - start, self._mark - middle

    def _layer_done(self, name: str, *_: Any) -> None:
        self._charge(self.forward, name)

    def _gradient_here(self, name: str, *_: Any) -> None:
        self._charge(self.backward, name)

    def _charge(self, account: dict[str, Number], name: str) -> None:
        now = self.clock()
        spent = now - self._mark
        account[name] = account[name] + spent if name in account else spent
        self._mark = now
