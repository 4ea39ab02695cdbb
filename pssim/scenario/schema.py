"""What a scenario is: frozen models in SI units, made from the texts a person writes.

Keys in a file carry no unit suffix, since the value has the unit in it; attributes do
(``cluster.link.latency`` is read, ``cluster.link.latency_s`` is used).  Unknown and missing keys
are errors.  What follows from these settings is computed from them and cannot be configured.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    WithJsonSchema,
    model_validator,
)

from pssim.program import Scheme, Variant
from pssim.registry import find_variant
from pssim.units import parse_bytes, parse_bytes_per_s, parse_seconds

__all__ = [
    "Channel",
    "Cluster",
    "Jitter",
    "Link",
    "Scenario",
    "SchemeEntry",
    "Size",
    "Training",
    "Workload",
]

# Beyond these a run would end for want of memory or patience; whoever gets there has most likely
# slipped by a few digits.
MOST_RANKS = 10_000_000
MOST_STEPS = 10_000_000
MOST_REPLICATIONS = 100_000


def _text(description: str, *examples: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "description": description, "examples": list(examples)})


Duration = Annotated[
    float,
    BeforeValidator(partial(parse_seconds, zero_allowed=True)),
    _text("a duration with its unit", "1.5 us", "0 s", "20 ms"),
]
Bandwidth = Annotated[
    float,
    BeforeValidator(parse_bytes_per_s),
    _text("a bandwidth with its unit", "6 GB/s", "25 Gbit/s"),
]
Data = Annotated[
    int,
    BeforeValidator(parse_bytes),
    _text("an amount of data with its unit", "25 MiB", "25 MB"),
]
# Strict: true is not 1, and 2.0 is not 2.
Count = Annotated[int, Field(strict=True, ge=1)]
Width = Annotated[int, Field(strict=True, ge=1, le=64)]
Ranks = Annotated[int, Field(strict=True, ge=1, le=MOST_RANKS)]
Steps = Annotated[int, Field(strict=True, ge=2, le=MOST_STEPS)]
Replications = Annotated[int, Field(strict=True, ge=1, le=MOST_REPLICATIONS)]
Variation = Annotated[float, Field(strict=True, ge=0, lt=5, allow_inf_nan=False)]
Name = Annotated[str, Field(strict=True, min_length=1)]


class Part(BaseModel):
    """A piece of a scenario."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Workload(Part):
    """What every rank computes in a step."""

    profile: Name = Field(description="name of a bundled profile, or the path of a profile's .json file")
    device: Name | None = Field(
        None,
        description="name of a bundled device, or the path of a device's .toml file, to move the profile to",
    )
    bucket_cap_bytes: Data | None = Field(
        None,
        alias="bucket_cap",
        description="size at which a gradient bucket closes; if not given, 1 MiB and then 25 MiB as in DDP",
    )
    gradient_dtype: Literal["float32", "float16", "bfloat16", "float64"] = Field(
        "float32", description="type in which gradients are communicated"
    )
    accumulation_steps: Count = Field(
        1, description="micro-batches per optimiser step; gradients are communicated after the last"
    )
    update_s: Duration | None = Field(
        None,
        alias="update",
        description="time of the weight update; if not given, from the profile, or from the device",
    )


class Link(Part):
    """A link: what a message costs is its latency, and its size over the bandwidth."""

    latency_s: Duration = Field(alias="latency", description="time before the first byte arrives")
    bandwidth_bytes_per_s: Bandwidth = Field(
        alias="bandwidth", description="bytes per second in each direction"
    )


class Channel(Part):
    """How a communicator works through its collectives."""

    width: Width = Field(
        1, description="collectives that may run at once, sharing the wire (NCCL: 1, gloo: 2)"
    )
    holds: Literal["completion", "transfer"] = Field(
        "completion",
        description="when a collective leaves the channel: at completion, or at the end of its transfer",
    )


class Jitter(Part):
    """How much compute times vary: coefficients of variation of log-normal factors with mean 1."""

    persistent: Variation = Field(0.0, description="between ranks, constant over the run")
    node: Variation = Field(0.0, description="from step to step, common to the ranks of a node")
    independent: Variation = Field(0.0, description="from step to step, of each rank by itself")


class Cluster(Part):
    """The machine."""

    ranks_per_node: Ranks = Field(1, description="ranks that share a node and its network link")
    cores_per_rank: Count = Field(1, description="cores each rank computes on")
    cores_per_node: Count | None = Field(
        None, description="cores a node has, if it is to be checked that the ranks fit"
    )
    nodes_available: Count | None = Field(
        None, description="nodes the machine has, if it is to be checked that the sizes fit"
    )
    link: Link = Field(description='from a node to the network: { latency = "1.5 us", bandwidth = "6 GB/s" }')
    local_link: Link | None = Field(
        None, description="between the ranks of one node; needed if there are several"
    )
    collective: Literal["auto", "ring", "tree"] = Field(
        "auto", description="algorithm of an all-reduce; auto takes the faster one for each size"
    )
    channel: Channel = Field(Channel(), description="how a communicator works through its collectives")
    jitter: Jitter = Field(Jitter(), description="how much compute times vary")


class Training(Part):
    """What is run: at which sizes, for how long, how often."""

    scaling: Literal["weak", "strong"] = Field(
        "weak", description="weak: a fixed batch per rank; strong: a fixed global batch"
    )
    batch_per_rank: Count | None = Field(
        None, description="weak scaling: samples in one forward pass of one rank"
    )
    global_batch: Count | None = Field(
        None, description="strong scaling: samples in one optimiser step of all ranks"
    )
    nodes: Annotated[tuple[Ranks, ...], Field(min_length=1)] | None = Field(
        None, description="cluster sizes in nodes, such as [1, 2, 4, 8]"
    )
    ranks: Annotated[tuple[Ranks, ...], Field(min_length=1)] | None = Field(
        None, description="cluster sizes in ranks, where nodes need not be full"
    )
    steps: Steps = Field(200, description="simulated optimiser steps")
    replications: Replications = Field(10, description="repetitions with other random numbers")
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**63)] = Field(
        1, description="number that all random numbers derive from"
    )


class SchemeEntry(Part):
    """One training scheme to run; all keys but these are options of the scheme."""

    name: Name = Field(description="a scheme's name, or file.py:Class")
    steps: Steps | None = Field(None, description="simulated steps, if other than the training's")
    replications: Replications | None = Field(None, description="replications, if other than the training's")
    options: dict[str, Any] = Field(default_factory=dict, description="the scheme's own options")
    _base: Path | None = PrivateAttr(None)

    @model_validator(mode="before")
    @classmethod
    def _gather_options(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        own = {key: value for key, value in data.items() if key in ("name", "steps", "replications")}
        return {**own, "options": {key: value for key, value in data.items() if key not in own}}

    def beside(self, folder: Path) -> Self:
        """This entry, with a ``file.py:Class`` looked for in ``folder`` instead of the working directory."""
        entry = self.model_copy()
        entry._base = folder.absolute()
        return entry

    @property
    def variant(self) -> Variant:
        """The scheme class and what its name presets.  Raise SchemeError if there is none."""
        return find_variant(self.name, self._base)

    @property
    def base(self) -> Path | None:
        """The folder a ``file.py:Class`` is relative to."""
        return self._base

    @property
    def label(self) -> str:
        """The name, and in brackets the options that differ from what the name stands for."""
        variant = self.variant
        return variant.label(variant.build(self.options))

    def build(self) -> Scheme:
        """The scheme with these options.  Raise SchemeError or ValidationError if that is not possible."""
        return self.variant.build(self.options)


@dataclass(frozen=True, slots=True)
class Size:
    """One cluster size."""

    nodes: int
    ranks: int
    cores: int


class Scenario(Part):
    """Everything a run needs to know."""

    question: Name = Field(description="the question this scenario answers")
    workload: Workload = Field(description="what every rank computes in a step")
    cluster: Cluster = Field(description="the machine")
    training: Training = Field(description="what is run")
    schemes: Annotated[tuple[SchemeEntry, ...], Field(min_length=1)] = Field(
        alias="scheme", description="the training schemes to compare"
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        from pssim.scenario.checks import cross_faults

        faults = cross_faults(self.workload, self.cluster, self.training)
        if faults:
            raise ValueError("; ".join(f"{'.'.join(map(str, key))}: {message}" for key, message in faults))
        return self

    @cached_property
    def sizes(self) -> tuple[Size, ...]:
        """The cluster sizes, smallest first, each once; the last node of a size in ranks need not be full."""
        per_node = self.cluster.ranks_per_node
        if self.training.nodes is not None:
            pairs = {(nodes, nodes * per_node) for nodes in self.training.nodes}
        else:
            pairs = {(-(-ranks // per_node), ranks) for ranks in self.training.ranks or ()}
        per_rank = self.cluster.cores_per_rank
        return tuple(Size(nodes, ranks, ranks * per_rank) for nodes, ranks in sorted(pairs))

    def micro_batch(self, ranks: int) -> int:
        """Samples in one forward pass of one rank, when there are so many ranks."""
        if self.training.global_batch is not None:
            return self.training.global_batch // (ranks * self.workload.accumulation_steps)
        return self.training.batch_per_rank or 0

    def steps_of(self, entry: SchemeEntry) -> int:
        """How many steps to simulate of this scheme."""
        return self.training.steps if entry.steps is None else entry.steps

    def replications_of(self, entry: SchemeEntry) -> int:
        """How often to simulate this scheme."""
        return self.training.replications if entry.replications is None else entry.replications
