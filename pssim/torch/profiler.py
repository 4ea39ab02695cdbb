"""Measures a model: seconds by wall clock, layer by layer, and FLOPs by counting.

Nothing is timed under torch.profiler, which slows small layers by half or more.  Seconds come from
hooks that read a wall clock, and are then scaled so that they add up to what the pass takes without
any hooks, measured in turn with it.  FLOPs come from running the same hooks on the meta device with
torch's FLOP counter for a clock.  The profiler is used once, as a check on the shares of the layers.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter

import torch
from pydantic import JsonValue
from torch import nn
from torch.profiler import ProfilerActivity, record_function
from torch.utils.flop_counter import FlopCounterMode

from pssim.errors import ProfileError
from pssim.torch.machine import describe_machine, freed_memory_kept, threads_set
from pssim.torch.models import TrainableModel
from pssim.torch.watch import Watch, leaves, one_pass
from pssim.workload.profile import Gradient, Layer, PassTotals, Profile, Quartiles

__all__ = ["measure"]

_WARM_UP = 2  # passes that are not counted: the first allocates, the second finds warm caches
_UPDATES_PER_REPEAT = 3  # an update takes a few milliseconds, so more of them cost nothing


@dataclass(frozen=True, slots=True)
class _Measured:
    """One batch: the pass without hooks, and the layers' and gradients' parts of it."""

    totals: PassTotals
    forward_s: dict[str, Quartiles]
    backward_s: dict[str, Quartiles]


def measure(
    name: str,
    model: TrainableModel,
    *,
    batches: Sequence[int],
    threads: int | None = None,
    repeats: int = 7,
    command: str = "",
    progress: Callable[[str], None] = lambda _: None,
) -> Profile:
    """The profile of ``model`` on this machine.

    Raise ProfileError if a parameter gets no gradient, or a batch does not fit in memory.
    """
    with threads_set(threads), freed_memory_kept() as allocator:
        machine = describe_machine()
        module, loss = model.build(), model.loss()
        module.train()
        owners = _owners(module, loss)
        progress("counting FLOPs on the meta device")
        flops = _count_flops(model)
        measured = []
        for batch in sorted(batches):
            try:
                measured.append(_measure_batch(module, loss, model, batch, repeats, progress))
            except RuntimeError as error:  # torch's word for everything, memory that runs out included
                reason = str(error).partition("\n")[0]
                raise ProfileError(f"model {name!r} cannot be run at batch {batch}: {reason}") from error
        missing = [parameter for parameter in owners if parameter not in measured[0].backward_s]
        if missing:
            raise ProfileError(f"model {name!r}: no gradient reaches {', '.join(missing)}")
        progress("timing the update")
        update_s = _measure_update(module, repeats)
        progress("checking shares against torch.profiler")
        provenance: dict[str, JsonValue] = {
            **machine,
            "command": command,
            "repeats": repeats,
            "allocator": allocator,
            "method": "quartiles of wall-clock times between hooks, scaled to add up to passes without hooks",
            "optimiser": "torch.optim.SGD with momentum 0.9",
            "profiler_check": _check_shares(module, loss, model, measured[-1]),
        }
    kinds = {key: type(leaf).__name__ for key, leaf in (*module.named_modules(), ("loss", loss))}
    return Profile(
        format="pssim-profile",
        version=1,
        name=name,
        sample=model.sample,
        provenance=provenance,
        totals=tuple(item.totals for item in measured),
        update_s=update_s,
        layers=tuple(_layers(kinds, owners, flops, measured)),
        gradients=tuple(
            Gradient(name=key, elements=module.get_parameter(key).numel(), layer=owners[key])
            for key in measured[0].backward_s
        ),
    )


def _owners(module: nn.Module, loss: nn.Module) -> dict[str, str]:
    """The layer each parameter belongs to: the module that holds it."""
    only = next(iter(leaves(module, loss)))
    return {name: name.rpartition(".")[0] or only for name, _ in module.named_parameters()}


def _count_flops(model: TrainableModel) -> tuple[dict[str, int], dict[str, int]]:
    """FLOPs of one sample by layer (forward) and by parameter (backward)."""
    with torch.device("meta"):
        module, loss = model.build(), model.loss()
        samples, targets = model.draw(2)  # one sample cannot be normalised over a batch
    counter = FlopCounterMode(display=False)
    with counter, Watch(module, loss, counter.get_total_flops) as watch:
        watch.run(samples, targets)
    return (
        {name: count // 2 for name, count in watch.forward.items()},
        {name: count // 2 for name, count in watch.backward.items()},
    )


def _measure_batch(
    module: nn.Module,
    loss: nn.Module,
    model: TrainableModel,
    batch: int,
    repeats: int,
    progress: Callable[[str], None],
) -> _Measured:
    samples, targets = model.draw(batch)
    plain: list[tuple[float, float]] = []
    hooked: list[float] = []
    layers: list[dict[str, float]] = []
    gradients: list[dict[str, float]] = []
    for turn in range(-_WARM_UP, repeats):
        progress(f"batch {batch}: " + ("warming up" if turn < 0 else f"repeat {turn + 1} of {repeats}"))
        # In turn, so that a machine that slows down for a while slows both alike.
        whole = one_pass(module, loss, samples, targets, perf_counter)
        with Watch(module, loss, perf_counter) as watch:
            seen = watch.run(samples, targets)
        if turn >= 0:
            plain.append(whole)
            hooked.append(sum(seen))
            layers.append(watch.forward)
            gradients.append(watch.backward)
    forward_s, backward_s = (_quartiles(part) for part in zip(*plain, strict=True))
    without = statistics.median(sum(pair) for pair in plain)
    return _Measured(
        PassTotals(
            batch=batch,
            forward_s=forward_s,
            backward_s=backward_s,
            hook_overhead=statistics.median(hooked) / without - 1.0,
        ),
        _scaled_to(forward_s[1], layers),
        _scaled_to(backward_s[1], gradients),
    )


def _scaled_to(total: float, repeats: Sequence[Mapping[str, float]]) -> dict[str, Quartiles]:
    """Quartiles of each part over the repeats, all scaled so that the medians add up to ``total``."""
    parts = {name: _quartiles([repeat[name] for repeat in repeats]) for name in repeats[0]}
    scale = total / sum(median for _, median, _ in parts.values())
    return {name: (low * scale, median * scale, high * scale) for name, (low, median, high) in parts.items()}


def _quartiles(values: Iterable[float]) -> Quartiles:
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, median, high


def _measure_update(module: nn.Module, repeats: int) -> Quartiles:
    """Seconds of an optimiser step; gradients are those of the last pass, and the weights stay put."""
    optimiser = torch.optim.SGD(module.parameters(), lr=0.0, momentum=0.9)
    times = []
    for turn in range(-_WARM_UP, repeats * _UPDATES_PER_REPEAT):
        start = perf_counter()
        optimiser.step()
        if turn >= 0:
            times.append(perf_counter() - start)
    return _quartiles(times)


def _check_shares(
    module: nn.Module, loss: nn.Module, model: TrainableModel, measured: _Measured
) -> dict[str, JsonValue]:
    """The layer whose share of the forward pass differs most between torch.profiler and the hooks."""
    spans: dict[str, record_function] = {}

    def begin(name: str, *_: object) -> None:
        spans[name] = record_function(f"layer:{name}")
        spans[name].__enter__()  # type: ignore[no-untyped-call]

    def end(name: str, *_: object) -> None:
        spans.pop(name).__exit__(None, None, None)

    samples, targets = model.draw(measured.totals.batch)
    handles = []
    for name, leaf in leaves(module, loss).items():
        handles.append(leaf.register_forward_pre_hook(partial(begin, name)))
        handles.append(leaf.register_forward_hook(partial(end, name)))
    with torch.profiler.profile(activities=[ProfilerActivity.CPU], acc_events=True) as profiler:
        loss(module(samples), targets)
    for handle in handles:
        handle.remove()

    events = [event for event in profiler.events() or () if event.name.startswith("layer:")]
    events.sort(key=lambda event: event.time_range.end)
    profiled = dict.fromkeys(measured.forward_s, 0.0)
    mark = begun = events[0].time_range.start
    for event in events:  # from the end of one layer to that of the next, as the hooks do
        profiled[event.name.removeprefix("layer:")] += event.time_range.end - mark
        mark = event.time_range.end
    by_profiler = {name: spent / (mark - begun) for name, spent in profiled.items()}
    forward_s = measured.totals.forward_s[1]
    by_hooks = {name: median / forward_s for name, (_, median, _) in measured.forward_s.items()}
    worst = max(by_hooks, key=lambda name: abs(by_profiler[name] - by_hooks[name]))
    return {
        "batch": measured.totals.batch,
        "layer_that_differs_most": worst,
        "share_by_hooks": by_hooks[worst],
        "share_by_profiler": by_profiler[worst],
    }


def _layers(
    kinds: Mapping[str, str],
    owners: Mapping[str, str],
    flops: tuple[Mapping[str, int], Mapping[str, int]],
    measured: Sequence[_Measured],
) -> Iterable[Layer]:
    """The layers in forward order; modules that hold parameters but compute nothing stand first."""
    zero = (0.0, 0.0, 0.0)
    forward_flops, backward_flops = flops
    computing = measured[0].forward_s
    for name in [*dict.fromkeys(owner for owner in owners.values() if owner not in computing), *computing]:
        own = [key for key, owner in owners.items() if owner == name]
        yield Layer(
            name=name,
            kind=kinds.get(name, kinds[""]),
            forward_flops=forward_flops.get(name, 0),
            backward_flops=sum(backward_flops[key] for key in own),
            forward_s=tuple(item.forward_s.get(name, zero) for item in measured),
            backward_s=tuple(_sum(item.backward_s[key] for key in own) for item in measured),
        )


def _sum(parts: Iterable[Quartiles]) -> Quartiles:
    """Quartiles of gradients of one layer, added up: they arrive together, so they vary together."""
    low, median, high = 0.0, 0.0, 0.0
    for part in parts:
        low, median, high = low + part[0], median + part[1], high + part[2]
    return low, median, high
