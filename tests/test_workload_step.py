"""From a profile to the step of a rank."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pssim.catalogue import find_device, find_profile
from pssim.errors import ProfileError
from pssim.workload import Device, Profile, build_step, load_device, load_profile
from pssim.workload.profile import Gradient, Layer, PassTotals

# A layer: forward and backward seconds a sample, and the sizes of its gradients as they arrive.
Row = tuple[float, float, tuple[int, ...]]


def profile(rows: Sequence[Row], fixed_s: float = 0.0, flops: int = 100) -> Profile:
    """A profile measured at batches 1 and 10, every layer on a line; its gradients arrive in reverse."""

    def quartiles(per_sample_s: float) -> tuple[tuple[float, float, float], ...]:
        return tuple((t, t, t) for t in (fixed_s + per_sample_s * batch for batch in (1, 10)))

    layers = tuple(
        Layer(
            name=f"layer{place}",
            kind="Linear",
            forward_flops=flops,
            backward_flops=2 * flops,
            forward_s=quartiles(forward_s),
            backward_s=quartiles(backward_s),
        )
        for place, (forward_s, backward_s, _) in enumerate(rows)
    )
    forward_s, backward_s = (
        [sum(fixed_s + row[which] * batch for row in rows) for batch in (1, 10)] for which in (0, 1)
    )
    return Profile(
        format="pssim-profile",
        version=1,
        name="tiny",
        sample="one number",
        provenance={"evidence": "assumed"},
        totals=tuple(
            PassTotals(batch=batch, forward_s=(f, f, f), backward_s=(b, b, b), hook_overhead=0.0)
            for batch, f, b in zip((1, 10), forward_s, backward_s, strict=True)
        ),
        update_s=(0.5, 0.5, 0.5),
        layers=layers,
        gradients=tuple(
            Gradient(name=f"layer{place}.{number}", elements=elements, layer=f"layer{place}")
            for place in reversed(range(len(rows)))
            for number, elements in enumerate(rows[place][2])
        ),
    )


CHAIN = profile([(1.0, 2.0, (10,)), (3.0, 5.0, (20, 2)), (4.0, 7.0, (30,))])


@pytest.fixture
def device() -> Device:
    """100 FLOP/s sustained, and 1 kB/s of memory bandwidth."""
    known = {"evidence": "assumed", "source": "this test"}
    return Device.model_validate(
        {
            "format": "pssim-device",
            "version": 1,
            "name": "abacus",
            "description": "beads",
            "cores": 4,
            "peak": known | {"value": "1 kFLOP/s"},
            "sustained": known | {"value": "100 FLOP/s", "low": "50 FLOP/s", "high": "200 FLOP/s"},
            "memory_bandwidth": known | {"value": "1 kB/s"},
        }
    )


def test_a_step_has_forward_a_segment_a_bucket_and_an_update() -> None:
    """Each bucket has the bytes of its gradients and the backward seconds up to its last one."""
    step = build_step(CHAIN, batch=2, bucket_cap_bytes=100)
    assert step.forward_s == pytest.approx(16.0)
    assert [bucket.index for bucket in step.buckets] == [0, 1]
    assert [bucket.size_bytes for bucket in step.buckets] == [120, 128]
    assert [bucket.backward_s for bucket in step.buckets] == pytest.approx([14.0, 14.0])
    assert [bucket.tensors for bucket in step.buckets] == [1, 3]
    assert (step.update_s, step.samples, step.extrapolated) == (0.5, 2, False)


def test_a_layers_backward_runs_before_the_first_of_its_gradients() -> None:
    """A bucket that closes between two gradients of a layer has all of the layer's seconds."""
    step = build_step(CHAIN, batch=1, bucket_cap_bytes=1)
    assert [bucket.backward_s for bucket in step.buckets] == pytest.approx([7.0, 5.0, 0.0, 2.0])


def test_a_layer_without_parameters_runs_before_the_next_gradient_to_arrive() -> None:
    """Backward goes through layers in reverse; what comes before all parameters runs last."""
    rows = [(0.0, 1.0, ()), (0.0, 10.0, (1,)), (0.0, 100.0, ()), (0.0, 1000.0, (1,)), (0.0, 1e4, ())]
    step = build_step(profile(rows), batch=1, bucket_cap_bytes=1)
    assert [bucket.backward_s for bucket in step.buckets] == pytest.approx([11000.0, 111.0])


def test_accumulation_runs_all_but_the_last_micro_batch_whole_and_ahead() -> None:
    """Nothing is sent before the last backward, so the buckets are those of one micro-batch."""
    once, thrice = (build_step(CHAIN, batch=1, accumulation_steps=steps) for steps in (1, 3))
    assert thrice.buckets == once.buckets
    assert thrice.forward_s == pytest.approx(2 * (8.0 + 14.0) + 8.0)
    assert (thrice.samples, thrice.update_s) == (3, once.update_s)


@pytest.mark.parametrize(
    ("dtype", "size"), [("float16", 2), ("bfloat16", 2), ("float32", 4), ("float64", 8)]
)
def test_the_gradient_dtype_gives_the_bytes(dtype: str, size: int) -> None:
    """And so the boundaries: as many gradients fill a bucket as their own type makes it take."""
    step = build_step(CHAIN, batch=1, gradient_dtype=dtype, bucket_cap_bytes=100)
    assert sum(bucket.size_bytes for bucket in step.buckets) == 62 * size
    assert len(step.buckets) == {2: 2, 4: 2, 8: 3}[size]


def test_the_profiles_own_update_gives_way_to_a_given_one(device: Device) -> None:
    assert build_step(CHAIN, batch=1, update_s=0.0).update_s == 0.0
    assert build_step(CHAIN, batch=1, device=device, update_s=2.0).update_s == 2.0


@pytest.mark.parametrize(("batch", "outside"), [(1, False), (10, False), (11, True)])
def test_a_batch_outside_what_was_measured_is_flagged(batch: int, outside: bool) -> None:
    step = build_step(CHAIN, batch=batch)
    assert step.extrapolated is outside
    assert any("extrapolated" in note for note in step.notes) is outside


def test_the_notes_say_how_far_the_lines_are_from_the_measured_totals() -> None:
    """A profile whose total is twice what its layers add up to is off by half."""
    data = CHAIN.model_dump()
    for total in data["totals"]:
        for key in ("forward_s", "backward_s"):
            total[key] = tuple(2 * seconds for seconds in total[key])
    assert "-0.500" in " ".join(build_step(Profile.model_validate(data), batch=1).notes)
    assert "0.000" in " ".join(build_step(CHAIN, batch=1).notes)


# ------------------------------------------------------------------------------ moving to a device


def test_on_a_device_the_times_are_flops_over_its_rate_divided_as_measured(device: Device) -> None:
    """3 layers x 300 FLOP a sample at 100 FLOP/s take 9 s, and forward keeps its 8 parts in 22."""
    step = build_step(CHAIN, batch=1, device=device, bucket_cap_bytes=1)
    backward = [bucket.backward_s for bucket in step.buckets]
    assert step.forward_s + sum(backward) == pytest.approx(9.0)
    assert step.forward_s == pytest.approx(9.0 * 8 / 22)
    assert backward[0] == pytest.approx(9.0 * 7 / 22)


def test_on_a_device_the_update_moves_twenty_bytes_a_parameter(device: Device) -> None:
    assert build_step(CHAIN, batch=1, device=device).update_s == pytest.approx(62 * 20 / 1000)


def test_a_share_of_a_device_takes_longer_in_proportion(device: Device) -> None:
    whole, quarter = (build_step(CHAIN, batch=3, device=device, device_share=part) for part in (1.0, 0.25))
    assert quarter.forward_s == pytest.approx(4 * whole.forward_s)
    assert quarter.update_s == pytest.approx(4 * whole.update_s)


def test_the_notes_show_the_move_with_range_evidence_and_source(device: Device) -> None:
    notes = " ".join(build_step(CHAIN, batch=1, device=device, device_share=0.25).notes)
    for part in ("abacus", "100 FLOP/s", "assumed", "50 FLOP/s to 200 FLOP/s", "this test", "0.25", "1 kB/s"):
        assert part in notes


def test_a_rate_without_a_range_has_none_in_the_notes(device: Device) -> None:
    """Low and high are the value where the device's file does not give them."""
    rate = device.sustained_flops_per_s
    exact = rate.model_copy(update={"low": rate.value, "high": rate.value})
    device = device.model_copy(update={"sustained_flops_per_s": exact})
    assert "(assumed; no range given; this test)" in " ".join(build_step(CHAIN, batch=1, device=device).notes)


def test_a_profile_without_flops_stays_on_its_machine(device: Device) -> None:
    with pytest.raises(ProfileError, match="'tiny' cannot be moved to device 'abacus': it must have FLOPs"):
        build_step(profile([(1.0, 1.0, (1,))], flops=0), batch=1, device=device)


# ------------------------------------------------------------------------------ edges


def test_a_model_of_one_number_is_a_bucket_of_four_bytes() -> None:
    step = build_step(profile([(1.0, 2.0, (1,))]), batch=1)
    assert [(bucket.size_bytes, bucket.backward_s) for bucket in step.buckets] == [(4, pytest.approx(2.0))]


def test_a_model_without_parameters_has_one_empty_bucket(device: Device) -> None:
    """So that backward has a segment to run in."""
    bare = profile([(1.0, 2.0, ()), (1.0, 3.0, ())])
    step = build_step(bare, batch=1)
    assert [(bucket.size_bytes, bucket.tensors) for bucket in step.buckets] == [(0, 0)]
    assert step.buckets[0].backward_s == pytest.approx(5.0)
    assert build_step(bare, batch=1, device=device).update_s == 0.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch": 0}, "must be 1 or more, they are 0 and 1"),
        ({"batch": 1, "accumulation_steps": 0}, "must be 1 or more, they are 1 and 0"),
        ({"batch": 1, "gradient_dtype": "float8"}, "must be one of float16, bfloat16, float32, float64"),
        ({"batch": 1, "device_share": 0.5}, "a device share needs a device"),
        ({"batch": 1, "bucket_cap_bytes": -1}, "bucket cap must be 0 bytes or more"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, int], message: str) -> None:
    with pytest.raises(ProfileError, match=message):
        build_step(CHAIN, **settings)


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5, float("nan")])
def test_a_share_is_more_than_nothing_and_no_more_than_the_device(device: Device, share: float) -> None:
    with pytest.raises(ProfileError, match="device share must be above 0 and at most 1"):
        build_step(CHAIN, batch=1, device=device, device_share=share)


ROWS = st.lists(
    st.tuples(
        st.floats(0.0, 10.0),
        st.floats(0.0, 10.0),
        st.lists(st.integers(0, 10**7), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=12,
)


@given(
    rows=ROWS,
    batch=st.integers(1, 40),
    cap=st.one_of(st.none(), st.integers(0, 10**8)),
    dtype=st.sampled_from([("float16", 2), ("float32", 4), ("float64", 8)]),
)
def test_nothing_is_lost(rows: list[Row], batch: int, cap: int | None, dtype: tuple[str, int]) -> None:
    """Buckets add up to the bytes of all parameters, and segments to the whole backward pass."""
    made = profile(rows)
    step = build_step(made, batch=batch, bucket_cap_bytes=cap, gradient_dtype=dtype[0])
    assert sum(bucket.size_bytes for bucket in step.buckets) == made.parameters * dtype[1]
    assert sum(bucket.tensors for bucket in step.buckets) == len(made.gradients)
    assert sum(bucket.backward_s for bucket in step.buckets) == pytest.approx(
        batch * sum(backward_s for _, backward_s, _ in rows), rel=1e-9
    )
    assert step.forward_s == pytest.approx(batch * sum(forward_s for forward_s, _, _ in rows), rel=1e-9)


# ------------------------------------------------------------------------------ the bundled ones


def test_the_bundled_resnet50_on_a_tianhe2_node() -> None:
    """24.30 GFLOP an image at 338 GFLOP/s sustained take 71.9 ms, update apart; 102 MB of gradient."""
    made = load_profile(find_profile("resnet50"))
    node = load_device(find_device("tianhe2-node"))
    step = build_step(made, batch=32, device=node)
    backward_s = sum(bucket.backward_s for bucket in step.buckets)
    assert made.parameters == 25_557_032
    assert sum(bucket.size_bytes for bucket in step.buckets) == 102_228_128
    assert (step.forward_s + backward_s) / 32 == pytest.approx(24.299e9 / 338e9, rel=1e-3)
    # Backward is not three quarters of the FLOPs' share by luck: it was measured.
    assert 1.2 < backward_s / step.forward_s < 2.5
