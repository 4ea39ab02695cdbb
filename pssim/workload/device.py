"""A device: what a profile measured elsewhere is moved to, and how well each of its numbers is known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from pssim.units import format_flops_per_s, parse_bytes_per_s, parse_flops_per_s
from pssim.workload.files import FileModel, read_toml

__all__ = ["BytesPerSecond", "Device", "FlopsPerSecond", "load_device"]

Evidence = Literal["measured", "read", "computed", "assumed"]


class _Known(FileModel):
    """A number with the range it may lie in, and where it comes from."""

    value: float
    low: float
    high: float
    evidence: Evidence
    source: Annotated[str, Field(min_length=1)]

    @model_validator(mode="before")
    @classmethod
    def _no_range_is_a_point(cls, data: Any) -> Any:
        if isinstance(data, dict) and "value" in data:
            return {"low": data["value"], "high": data["value"]} | data
        return data

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low <= self.value <= self.high:
            raise ValueError("must have low <= value <= high")
        return self


_Flops = Annotated[float, BeforeValidator(parse_flops_per_s)]
_Bytes = Annotated[float, BeforeValidator(parse_bytes_per_s)]


class FlopsPerSecond(_Known):
    """A compute rate of the whole device."""

    value: _Flops
    low: _Flops
    high: _Flops


class BytesPerSecond(_Known):
    """A memory bandwidth of the whole device."""

    value: _Bytes
    low: _Bytes
    high: _Bytes


class Device(FileModel):
    """A node or an accelerator that runs ranks; shared evenly where several ranks run on it."""

    format: Literal["pssim-device"]
    version: Literal[1]
    name: str
    description: str
    cores: Annotated[int, Field(ge=1)]
    peak_flops_per_s: FlopsPerSecond = Field(alias="peak")
    sustained_flops_per_s: FlopsPerSecond = Field(alias="sustained")
    memory_bandwidth_bytes_per_s: BytesPerSecond = Field(alias="memory_bandwidth")

    @model_validator(mode="after")
    def _sustained_below_peak(self) -> Self:
        if self.sustained_flops_per_s.high > self.peak_flops_per_s.value:
            peak = format_flops_per_s(self.peak_flops_per_s.value)
            raise ValueError(f"sustained.high must not be above the peak, which is {peak}")
        return self


def load_device(path: Path | str) -> Device:
    """The device in this TOML file.  Raise ProfileError, naming file and key, if it cannot be used."""
    return read_toml(Device, Path(path), "device")
