"""From a profile to what one optimiser step of one rank costs: forward, buckets as they complete, update."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pssim.errors import ProfileError
from pssim.units import format_bytes_per_s, format_flops_per_s
from pssim.workload.buckets import GRADIENT_BYTES, bucket_ranges
from pssim.workload.device import Device
from pssim.workload.profile import Profile

__all__ = ["Bucket", "StepWorkload", "build_step"]

# SGD with momentum on 4-byte numbers reads weight, gradient and velocity and writes weight and velocity.
_UPDATE_BYTES_PER_PARAMETER = 5 * 4


@dataclass(frozen=True, slots=True)
class Bucket:
    """A gradient bucket, and the backward segment that ends when its last gradient arrives."""

    index: int
    size_bytes: int
    backward_s: float
    tensors: int


@dataclass(frozen=True, slots=True)
class StepWorkload:
    """One optimiser step of one rank, undisturbed.

    ``forward_s`` has every micro-batch but the last in it, backward included, since their gradients are
    only added up.  There is always a bucket, if need be an empty one, so that backward has a segment.
    """

    forward_s: float
    buckets: tuple[Bucket, ...]
    update_s: float
    samples: int
    extrapolated: bool
    notes: tuple[str, ...]


def build_step(
    profile: Profile,
    *,
    batch: int,
    device: Device | None = None,
    device_share: float = 1.0,
    bucket_cap_bytes: int | None = None,
    gradient_dtype: str = "float32",
    accumulation_steps: int = 1,
    update_s: float | None = None,
) -> StepWorkload:
    """The step of a rank that takes ``batch`` samples in each of ``accumulation_steps`` micro-batches.

    On a ``device`` the times are FLOPs over its sustained rate, times ``device_share``, divided among
    layers as measured; without one they are the profile's own.  Bucket boundaries follow the bytes of
    ``gradient_dtype``, the type gradients have when they arrive; compressing them later, in a
    communication hook, would leave DDP's boundaries where they were.  Raise ProfileError for a setting
    that is out of range, or a device that the profile cannot be moved to.
    """
    if batch < 1 or accumulation_steps < 1:
        raise ProfileError(
            f"batch and accumulation steps must be 1 or more, they are {batch} and {accumulation_steps}"
        )
    if gradient_dtype not in GRADIENT_BYTES:
        known = ", ".join(GRADIENT_BYTES)
        raise ProfileError(f"gradient dtype must be one of {known}, it is {gradient_dtype!r}")
    if device is None and device_share != 1.0:
        raise ProfileError(f"a device share needs a device, it is {device_share:g} of none")
    if not 0.0 < device_share <= 1.0:
        raise ProfileError(f"device share must be above 0 and at most 1, it is {device_share:g}")

    forward, backward = _pass_seconds(profile, batch)
    notes = [*_fit_notes(profile, batch)]
    if device is not None:
        scale = _scale_to(device, device_share, profile, batch, sum(forward) + sum(backward))
        forward = [t * scale for t in forward]
        backward = [t * scale for t in backward]
        notes.append(_device_note(device, device_share))
    if update_s is None:
        update_s = profile.update_s[1]
        if device is not None:
            bandwidth = device.memory_bandwidth_bytes_per_s.value * device_share
            update_s = profile.parameters * _UPDATE_BYTES_PER_PARAMETER / bandwidth
            notes.append(_update_note(device))
    if gradient_dtype != "float32":
        notes.append(f"gradients are {gradient_dtype} in buckets; computation takes what it takes in float32")

    whole_forward_s, whole_backward_s = sum(forward), sum(backward)
    return StepWorkload(
        forward_s=(accumulation_steps - 1) * (whole_forward_s + whole_backward_s) + whole_forward_s,
        buckets=_buckets(profile, backward, bucket_cap_bytes, GRADIENT_BYTES[gradient_dtype]),
        update_s=update_s,
        samples=batch * accumulation_steps,
        extrapolated=not profile.batches[0] <= batch <= profile.batches[-1],
        notes=tuple(notes),
    )


def _pass_seconds(profile: Profile, batch: int) -> tuple[list[float], list[float]]:
    """Forward and backward seconds of each layer at this batch, on the machine they were measured on."""
    return (
        [forward.at(batch) for forward, _ in profile.lines],
        [backward.at(batch) for _, backward in profile.lines],
    )


def _buckets(
    profile: Profile, backward: Sequence[float], cap_bytes: int | None, element_bytes: int
) -> tuple[Bucket, ...]:
    gradients = profile.gradients
    if not gradients:
        return (Bucket(0, 0, sum(backward), 0),)
    sizes = [gradient.elements * element_bytes for gradient in gradients]
    before = _seconds_before(profile, backward)
    return tuple(
        Bucket(
            index,
            sum(sizes[place] for place in places),
            sum(before[place] for place in places),
            len(places),
        )
        for index, places in enumerate(bucket_ranges(sizes, cap_bytes))
    )


def _seconds_before(profile: Profile, backward: Sequence[float]) -> list[float]:
    """Backward seconds between each gradient and the one that arrived before it.

    A layer's backward runs before the first of its gradients arrives.  Backward visits layers in
    reverse, so one without gradients runs just before the nearest earlier layer that has some; what
    lies before all of those in the forward pass runs at the very end.
    """
    first: dict[str, int] = {}
    for place, gradient in enumerate(profile.gradients):
        first.setdefault(gradient.layer, place)
    before = [0.0] * len(profile.gradients)
    place = len(before) - 1
    for layer, seconds in zip(profile.layers, backward, strict=True):
        place = first.get(layer.name, place)
        before[place] += seconds
    return before


def _scale_to(device: Device, share: float, profile: Profile, batch: int, measured_s: float) -> float:
    """What the measured times are multiplied by on ``device``."""
    flops = batch * (profile.forward_flops + profile.backward_flops)
    if flops == 0 or measured_s == 0.0:
        raise ProfileError(
            f"profile {profile.name!r} cannot be moved to device {device.name!r}: "
            f"it must have FLOPs and times, it has {flops} FLOP and {measured_s:g} s"
        )
    return flops / (device.sustained_flops_per_s.value * share) / measured_s


def _fit_notes(profile: Profile, batch: int) -> Iterator[str]:
    """Where the times were measured, and how far the line through the batches is from what was measured."""
    residuals = []
    for total in profile.totals:
        forward, backward = _pass_seconds(profile, total.batch)
        measured = total.forward_s[1] + total.backward_s[1]
        residuals.append((sum(forward) + sum(backward)) / measured - 1.0 if measured else 0.0)
    worst = max(range(len(residuals)), key=lambda place: abs(residuals[place]))
    known = [str(profile.provenance[key]) for key in ("processor", "date") if key in profile.provenance]
    if known:
        yield f"profile {profile.name!r} was measured on {', '.join(known)}"
    yield (
        f"profile {profile.name!r}: each layer's time is a line through batches "
        f"{', '.join(map(str, profile.batches))}; their sum differs by {residuals[worst]:+.3f} of the total "
        f"measured at batch {profile.batches[worst]}, where the lines fit worst"
    )
    if not profile.batches[0] <= batch <= profile.batches[-1]:
        yield f"batch {batch} is extrapolated: batches 1 to {profile.batches[-1]} were measured"


def _device_note(device: Device, share: float) -> str:
    rate = device.sustained_flops_per_s
    part = "" if share == 1.0 else f", of which a rank has {share:.6g}"
    return (
        f"moved to device {device.name!r}: {format_flops_per_s(rate.value)} sustained ({rate.evidence}; "
        f"{_range(rate.low, rate.high, format_flops_per_s)}; {rate.source}){part}"
    )


def _update_note(device: Device) -> str:
    rate = device.memory_bandwidth_bytes_per_s
    return (
        f"update: {_UPDATE_BYTES_PER_PARAMETER} bytes a parameter (SGD with momentum) at "
        f"{format_bytes_per_s(rate.value)} ({rate.evidence}; "
        f"{_range(rate.low, rate.high, format_bytes_per_s)}; {rate.source})"
    )


def _range(low: float, high: float, spell: Callable[[float], str]) -> str:
    return f"range {spell(low)} to {spell(high)}" if low < high else "no range given"
