"""Measuring a model: what a Watch sees, and the profile that comes of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from pssim.catalogue import find_profile
from pssim.errors import ProfileError
from pssim.torch.models import TrainableModel
from pssim.torch.profiler import measure
from pssim.torch.watch import Watch, one_pass
from pssim.workload import Profile, build_step, load_profile, save_profile


class Net(nn.Module):
    """Two layers that learn and one that does not, a pause between them, and one layer used twice."""

    def __init__(self, pause: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.relu = nn.ReLU()
        self.last = nn.Linear(6, 3)
        self.pause = pause

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.first(x))
        self.pause()
        return self.last(self.relu(y + x))


class Ticks:
    """A clock that moves by one at each reading, and further when told to."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        self.now += 1
        return self.now

    def skip(self) -> None:
        self.now += 1000


TINY = TrainableModel(Net, "six numbers", (6,), 3)


@pytest.fixture(scope="module")
def measured() -> Profile:
    return measure("tiny", TINY, batches=[8, 1], threads=1, repeats=3, command="pssim calibrate model tiny")


# ------------------------------------------------------------------------------ the watch


def test_a_watch_splits_a_pass_into_parts_that_add_up() -> None:
    clock = Ticks()
    with Watch(Net(), nn.CrossEntropyLoss(), clock) as watch:
        forward, backward = watch.run(*TINY.draw(4))
    assert list(watch.forward) == ["first", "relu", "last", "loss"]
    assert list(watch.backward) == ["last.bias", "last.weight", "first.bias", "first.weight"]
    assert sum(watch.forward.values()) == forward
    assert sum(watch.backward.values()) == backward


def test_what_happens_between_layers_goes_to_the_later_one() -> None:
    """The pause is before the second use of relu; both uses are one layer."""
    clock = Ticks()
    with Watch(Net(clock.skip), nn.CrossEntropyLoss(), clock) as watch:
        watch.run(*TINY.draw(4))
    assert watch.forward == {"first": 1, "relu": 1 + 1001, "last": 1, "loss": 1}


def test_a_watch_leaves_nothing_behind() -> None:
    """After it the model runs without hooks, and a pass sees three readings of the clock."""
    model, loss, clock = Net(), nn.CrossEntropyLoss(), Ticks()
    with Watch(model, loss, clock) as watch:
        watch.run(*TINY.draw(4))
    before = clock.now
    assert one_pass(model, loss, *TINY.draw(4), clock) == (1, 1)
    assert clock.now == before + 3


def test_a_watch_does_not_change_gradients() -> None:
    torch.manual_seed(0)
    model, loss = Net(), nn.CrossEntropyLoss()
    one_pass(model, loss, *TINY.draw(4), Ticks())
    plain = [parameter.grad.clone() for parameter in model.parameters()]
    with Watch(model, loss, Ticks()) as watch:
        watch.run(*TINY.draw(4))
    watched = [parameter.grad for parameter in model.parameters()]
    assert all(torch.equal(old, new) for old, new in zip(plain, watched, strict=True))


# ------------------------------------------------------------------------------ the profile


def test_a_profile_has_the_layers_and_gradients_of_the_model(measured: Profile) -> None:
    assert [(layer.name, layer.kind) for layer in measured.layers] == [
        ("first", "Linear"),
        ("relu", "ReLU"),
        ("last", "Linear"),
        ("loss", "CrossEntropyLoss"),
    ]
    assert [(gradient.name, gradient.elements, gradient.layer) for gradient in measured.gradients] == [
        ("last.bias", 3, "last"),
        ("last.weight", 18, "last"),
        ("first.bias", 6, "first"),
        ("first.weight", 36, "first"),
    ]
    assert measured.parameters == 63


def test_flops_are_counted_a_sample_and_a_pass(measured: Profile) -> None:
    """A multiply and an add are two; nobody needs the gradient of the samples, so first has half."""
    flops = {layer.name: (layer.forward_flops, layer.backward_flops) for layer in measured.layers}
    assert flops == {"first": (72, 72), "relu": (0, 0), "last": (36, 72), "loss": (0, 0)}


def test_layers_add_up_to_the_pass_without_hooks(measured: Profile) -> None:
    for place, total in enumerate(measured.totals):
        for key in ("forward_s", "backward_s"):
            parts = [getattr(layer, key)[place][1] for layer in measured.layers]
            assert sum(parts) == pytest.approx(getattr(total, key)[1], rel=1e-9)


def test_batches_come_in_order_and_quartiles_too(measured: Profile) -> None:
    assert measured.batches == (1, 8)
    for low, median, high in (measured.update_s, *(total.forward_s for total in measured.totals)):
        assert 0.0 < low <= median <= high


def test_a_profile_says_how_it_came_about(measured: Profile) -> None:
    made = measured.provenance
    assert made["evidence"] == "measured"
    assert (made["threads"], made["repeats"], made["torch"]) == (1, 3, torch.__version__)
    assert made["command"] == "pssim calibrate model tiny"
    check = made["profiler_check"]
    assert isinstance(check, dict)
    assert check["layer_that_differs_most"] in {layer.name for layer in measured.layers}


def test_a_measured_profile_is_a_usable_one(measured: Profile, tmp_path: object) -> None:
    path = f"{tmp_path}/tiny.json"
    save_profile(measured, path)
    step = build_step(load_profile(path), batch=4)
    assert step.forward_s > 0.0
    assert sum(bucket.size_bytes for bucket in step.buckets) == 4 * 63


def test_measuring_leaves_the_number_of_threads_as_it_was(measured: Profile) -> None:
    """The fixture computed with one thread."""
    before = torch.get_num_threads()
    measure("tiny", TINY, batches=[1, 2], threads=before + 1, repeats=3)
    assert torch.get_num_threads() == before


def test_a_model_of_one_number() -> None:
    class One(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.scale

    made = measure("one", TrainableModel(One, "three numbers", (3,), 3), batches=[1, 2], repeats=3)
    assert made.parameters == 1
    assert [bucket.size_bytes for bucket in build_step(made, batch=1).buckets] == [4]


def test_parameters_of_a_module_with_children_have_a_layer_of_its_own() -> None:
    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shift = nn.Parameter(torch.zeros(6))
            self.inner = Net()

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x + self.shift)  # type: ignore[no-any-return]

    def build() -> nn.Module:
        return nn.Sequential(nn.Flatten(), Shifted())

    made = measure("shifted", TrainableModel(build, "six numbers", (6,), 3), batches=[1, 2], repeats=3)
    assert made.layers[0].name == "1"
    assert made.layers[0].forward_s == ((0.0, 0.0, 0.0),) * 2
    assert made.gradients[-1].layer == "1"


def test_a_parameter_that_gets_no_gradient_is_named() -> None:
    """DDP would refuse to train it as well."""

    class Idle(Net):
        def __init__(self) -> None:
            super().__init__()
            self.spare = nn.Linear(2, 2, bias=False)

    with pytest.raises(ProfileError, match=r"model 'idle': no gradient reaches spare\.weight"):
        measure("idle", TrainableModel(Idle, "six numbers", (6,), 3), batches=[1, 2], repeats=3)


HEAP = """
import ctypes
import torch
from pssim.torch.machine import freed_memory_kept

class Heap(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena _1 _2 mapped_blocks _4 _5 _6 _7 _8 _9".split()]

libc = ctypes.CDLL(None)
if hasattr(libc, "mallinfo2"):  # glibc from 2.33 on; no other is told to keep memory
    libc.mallinfo2.restype = Heap
    before = libc.mallinfo2().mapped_blocks
    with freed_memory_kept():
        tensor = torch.empty(64 * 2**20, dtype=torch.uint8)
        print(libc.mallinfo2().mapped_blocks - before, libc.mallinfo2().arena >= 64 * 2**20)
        size = libc.mallinfo2().arena
        del tensor
        print(libc.mallinfo2().arena >= size)
    tensor = torch.empty(2**30, dtype=torch.uint8)
    print(libc.mallinfo2().mapped_blocks - before)
"""


def test_memory_is_kept_for_the_next_pass_and_given_back_later(tmp_path: Path) -> None:
    """A large tensor lies in the heap, which keeps its size when it is freed; later ones are mapped again.

    In a process of its own: what the allocator does depends on all that went before.
    """
    done = subprocess.run(
        [sys.executable, "-c", HEAP], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() in ([], ["0", "True", "True", "1"])


# ------------------------------------------------------------------------------ the bundled one


def test_the_bundled_resnet50_is_ours_and_was_measured_by_the_command() -> None:
    """Names, sizes and FLOPs are those of the model; times and shares are plausible for one."""
    made = load_profile(find_profile("resnet50"))
    from pssim.torch.models import MODELS

    with torch.device("meta"):
        model = MODELS["resnet50"].build()
    assert {gradient.name: gradient.elements for gradient in made.gradients} == {
        name: parameter.numel() for name, parameter in model.named_parameters()
    }
    assert made.forward_flops == 8_178_368_512
    assert made.backward_flops / made.forward_flops == pytest.approx(1.971, abs=5e-4)
    assert str(made.provenance["command"]).startswith("pssim calibrate model resnet50 --batch 1,8,32")
    assert all(abs(total.hook_overhead) < 0.05 for total in made.totals)
