"""Synchronous and pseudo-synchronous training by all-reduce."""

from __future__ import annotations

from collections import deque

from pydantic import Field

from pssim.program import (
    AllReduce,
    Backward,
    Forward,
    Program,
    Rank,
    Scheme,
    StepCosts,
    Update,
    Wait,
    register,
)
from pssim.theory import delayed_all_reduce

__all__ = ["DelayedAllReduce"]


@register("sync", delay=0, overlap=False)
@register("sync-overlap", delay=0)
@register("pseudo-sync", delay=1)
class DelayedAllReduce(Scheme):
    """Every gradient is averaged over all ranks and applied ``delay`` steps after it was computed.

    Delay 0 is synchronous training: without overlap the all-reduces begin after the whole backward
    pass, with overlap each begins as soon as its bucket is ready (PyTorch DDP).  Delay 1 is
    pseudo-synchronous training: the update uses the previous step's average while this step's is
    on its way.  During the first ``warmup_steps`` steps nothing is delayed.

    Source: Y. Wen et al., "Accelerating Massively Distributed Deep Learning Through Efficient
    Pseudo-Synchronous Update Method", Int. J. Parallel Programming, 2024 (delay 1; known to us by its
    abstract); Y. Li et al., "Pipe-SGD", NeurIPS 2018 (any delay, as pipeline width K = delay + 1).
    Assumes that a delayed step does not wait for its own gradient before the next forward pass, and
    that the first ``delay`` steps apply nothing.
    """

    delay: int = Field(
        1,
        ge=0,
        le=10_000,
        description="steps between computing a gradient and applying its average; 0 is synchronous",
    )
    overlap: bool = Field(
        True,
        description="whether a bucket's all-reduce begins during backward, as soon as its gradient is ready, "
        "or only after it",
    )
    warmup_steps: int = Field(
        0,
        ge=0,
        le=10_000_000,
        description="steps at the start that apply their own gradients, as if delay were 0",
    )

    def worker(self, rank: Rank) -> Program:
        """One rank: compute, begin the all-reduces, apply what began ``delay`` steps ago."""
        in_flight: deque[list[object]] = deque()
        for step in rank.steps():
            yield Forward()
            handles, held = [], []
            for bucket in rank.buckets:
                gradient = yield Backward(bucket)
                if self.overlap:
                    handles.append((yield AllReduce(gradient)))
                else:
                    held.append(gradient)
            for gradient in held:
                handles.append((yield AllReduce(gradient)))  # noqa: PERF401  (a yield)
            in_flight.append(handles)
            while len(in_flight) > (0 if step < self.warmup_steps else self.delay):
                yield Update((yield Wait(*in_flight.popleft())))

    def pattern(self) -> int:
        """Steps may alternate for ever, in a pattern of delay + 1."""
        return self.delay + 1

    def warm_up(self) -> int:
        """The synchronous steps at the start."""
        return self.warmup_steps

    def step_time(self, costs: StepCosts) -> tuple[float, float, float]:
        """Mean step, and bounds it stays within, in seconds; the three are equal where it is exact."""
        return delayed_all_reduce(costs, delay=self.delay, overlap=self.overlap)
