"""A profile: what one model's forward and backward passes were measured to take, layer by layer.

The backward seconds of a layer run from the arrival of the gradient before it to the arrival of its
own.  A layer without parameters has no gradient to wait for, so what it took is in the layer whose
gradient comes next.  Times are quartiles over repeats: ``(lower, median, upper)``.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, JsonValue, model_validator

from pssim.errors import OutputError
from pssim.workload.files import FileModel, read_json
from pssim.workload.scaling import BatchLine, fit_line

__all__ = ["Gradient", "Layer", "PassTotals", "Profile", "Quartiles", "load_profile", "save_profile"]

# The upper bounds lie beyond any machine; they keep sums and products inside what floats can hold.
_Seconds = Annotated[float, Field(ge=0, le=1e6)]
_Count = Annotated[int, Field(ge=0, le=10**18)]
_Batch = Annotated[int, Field(ge=1, le=10**9)]
Quartiles = tuple[_Seconds, _Seconds, _Seconds]


class Layer(FileModel):
    """One layer: its FLOPs for one sample, and its seconds at each measured batch."""

    name: str
    kind: str
    forward_flops: _Count
    backward_flops: _Count
    forward_s: tuple[Quartiles, ...]
    backward_s: tuple[Quartiles, ...]


class Gradient(FileModel):
    """The gradient of one parameter, and the layer that the parameter belongs to."""

    name: str
    elements: _Count
    layer: str


class PassTotals(FileModel):
    """One batch as a whole, timed without hooks; ``hook_overhead`` is what the hooks added, as a fraction."""

    batch: _Batch
    forward_s: Quartiles
    backward_s: Quartiles
    hook_overhead: float


class Profile(FileModel):
    """A measured model; layers in the order of the forward pass, gradients in the order they arrive."""

    format: Literal["pssim-profile"]
    version: Literal[1]
    name: str
    sample: str
    provenance: dict[str, JsonValue]
    totals: tuple[PassTotals, ...]
    update_s: Quartiles
    layers: Annotated[tuple[Layer, ...], Field(min_length=1)]
    gradients: tuple[Gradient, ...]

    @property
    def batches(self) -> tuple[int, ...]:
        """The batches that were measured, ascending."""
        return tuple(total.batch for total in self.totals)

    @property
    def parameters(self) -> int:
        """How many numbers the model learns."""
        return sum(gradient.elements for gradient in self.gradients)

    @property
    def forward_flops(self) -> int:
        """FLOPs of one sample's forward pass; a multiply and an add count as two."""
        return sum(layer.forward_flops for layer in self.layers)

    @property
    def backward_flops(self) -> int:
        """FLOPs of one sample's backward pass."""
        return sum(layer.backward_flops for layer in self.layers)

    @cached_property
    def lines(self) -> tuple[tuple[BatchLine, BatchLine], ...]:
        """How each layer's forward and backward medians grow with the batch."""
        return tuple(
            (
                fit_line(self.batches, [median for _, median, _ in layer.forward_s]),
                fit_line(self.batches, [median for _, median, _ in layer.backward_s]),
            )
            for layer in self.layers
        )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        # The first fault hides the others: what follows from it would only confuse.
        for fault in self._inconsistencies():
            raise ValueError(fault)
        return self

    def _inconsistencies(self) -> Iterator[str]:
        batches = list(self.batches)
        if batches != sorted(set(batches)):
            yield f"totals: batches must ascend without repeats, they are {batches}"
        if len(batches) < 2 or batches[0] != 1:
            yield f"totals: there must be batch 1 and at least one larger, these are {batches}"
        for name, count in Counter(layer.name for layer in self.layers).items():
            if count > 1:
                yield f"layers: {name!r} must stand once, it stands {count} times"
        for layer in self.layers:
            for key, rows in (("forward_s", layer.forward_s), ("backward_s", layer.backward_s)):
                if len(rows) != len(batches):
                    yield f"layers: {layer.name!r}: {key} must have {len(batches)} rows, it has {len(rows)}"
        known = {layer.name for layer in self.layers}
        for gradient in self.gradients:
            if gradient.layer not in known:
                yield f"gradients: {gradient.name!r} must belong to a layer, {gradient.layer!r} is none"


def load_profile(path: Path | str) -> Profile:
    """The profile in this file.  Raise ProfileError, naming file and key, if it cannot be used."""
    return read_json(Profile, Path(path), "profile")


def save_profile(profile: Profile, path: Path | str) -> None:
    """Write the profile, whole or not at all.  Raise OutputError if it cannot be written there."""
    path = Path(path)
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_text(_render(profile), encoding="utf-8")
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise OutputError(f"{path}: the profile cannot be written: {error.strerror or error}") from error


def _render(profile: Profile) -> str:
    """The profile as JSON with one layer, gradient or batch a line, so that changes can be reviewed."""
    lines = []
    for key, value in _rounded(profile.model_dump()).items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            rows = ",\n".join(f"    {json.dumps(row, allow_nan=False)}" for row in value)
            lines.append(f'  "{key}": [\n{rows}\n  ]')
        elif isinstance(value, dict):
            text = json.dumps(value, indent=2, allow_nan=False).replace("\n", "\n  ")
            lines.append(f'  "{key}": {text}')
        else:
            lines.append(f'  "{key}": {json.dumps(value, allow_nan=False)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _rounded(value: Any) -> Any:
    """Floats to nine significant digits: far finer than any clock, and short in the file."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    return value
