"""Our buckets against those that DistributedDataParallel really forms, in one process, without a network."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.distributed as dist
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from pssim.catalogue import find_profile
from pssim.torch.models.resnet import ResNet, resnet50
from pssim.torch.watch import Watch
from pssim.workload import build_step, load_profile
from pssim.workload.buckets import bucket_ranges

# The only use of the fake process group, which torch keeps for its own tests: collectives of any
# number of ranks end at once.
fake_pg = pytest.importorskip(
    "torch.testing._internal.distributed.fake_pg", reason="this torch has no fake process group"
)

MIB = 2**20
Model = Callable[[], nn.Module]


@pytest.fixture(scope="module", autouse=True)
def process_group() -> Iterator[None]:
    dist.init_process_group("fake", rank=0, world_size=4, store=fake_pg.FakeStore())
    yield
    dist.destroy_process_group()


def buckets_of_ddp(
    model: nn.Module, samples: Tensor, cap_bytes: int | None, micro_batches: int = 1
) -> list[tuple[int, int, int]]:
    """(index, bytes, gradients) of every bucket that DDP reduces in iteration 1, in that order."""
    seen: list[tuple[int, int, int]] = []

    def hook(_, bucket):  # type: ignore[no-untyped-def]  # DDP cannot resolve postponed annotations
        buffer = bucket.buffer()
        seen.append((bucket.index(), buffer.numel() * buffer.element_size(), len(bucket.gradients())))
        done: torch.futures.Future[Tensor] = torch.futures.Future()
        done.set_result(buffer)
        return done

    cap_mib = None if cap_bytes is None else cap_bytes / MIB
    parallel = DistributedDataParallel(model, bucket_cap_mb=cap_mib)
    parallel.register_comm_hook(None, hook)
    for _ in range(2):
        seen.clear()
        with parallel.no_sync():
            for _ in range(micro_batches - 1):
                parallel(samples).sum().backward()
            assert seen == []
        parallel(samples).sum().backward()
    return seen


def our_buckets(model: nn.Module, samples: Tensor, cap_bytes: int | None) -> list[tuple[int, int, int]]:
    """The same from the order in which a Watch sees gradients arrive."""
    clock = iter(range(10**6))
    with Watch(model, _Sum(), lambda: next(clock)) as watch:
        watch.run(samples, samples)
    parameters = [model.get_parameter(name) for name in watch.backward]
    sizes = [parameter.numel() * parameter.element_size() for parameter in parameters]
    return [
        (index, sum(sizes[place] for place in places), len(places))
        for index, places in enumerate(bucket_ranges(sizes, cap_bytes))
    ]


class _Sum(nn.Module):
    def forward(self, values: Tensor, _: Tensor) -> Tensor:
        return values.sum()


def check(model: Model, samples: Tensor, cap_bytes: int | None) -> list[tuple[int, int, int]]:
    theirs = buckets_of_ddp(model(), samples, cap_bytes)
    assert our_buckets(model(), samples, cap_bytes) == theirs
    return theirs


@pytest.mark.parametrize("cap_bytes", [None, MIB, 5 * MIB, 25 * MIB, 1000 * MIB])
def test_resnet50(cap_bytes: int | None) -> None:
    """What a scenario gets from the measured profile is what DDP does with the model, at every cap."""
    profile = load_profile(find_profile("resnet50"))
    step = build_step(profile, batch=32, bucket_cap_bytes=cap_bytes)
    assert [(bucket.index, bucket.size_bytes, bucket.tensors) for bucket in step.buckets] == buckets_of_ddp(
        resnet50(), torch.zeros(2, 3, 32, 32), cap_bytes
    )


def test_an_unset_cap_is_not_a_cap_of_25_mib() -> None:
    """With no cap set the first bucket closes at 1 MiB, so there are more buckets than with 25 MiB."""
    samples = torch.zeros(2, 3, 32, 32)
    unset = buckets_of_ddp(resnet50(), samples, None)
    given_cap = buckets_of_ddp(resnet50(), samples, 25 * MIB)
    assert unset != given_cap
    # fc.bias and then fc.weight: the bucket keeps the gradient that takes it over the limit.
    assert unset[0] == (0, 4 * 2_049_000, 2)


@pytest.mark.parametrize("cap_bytes", [None, 1, 100_000, MIB])
def test_small_resnet(cap_bytes: int | None) -> None:
    """Residual blocks, some with a convolution on the shortcut, in buckets down to one gradient each."""
    check(lambda: ResNet((1, 2, 1, 1), width=8, classes=10), torch.zeros(2, 3, 32, 32), cap_bytes)


def test_accumulated_gradients_are_reduced_once_in_the_same_buckets() -> None:
    """Nothing is sent during all micro-batches but the last, and the last sends what one alone would."""
    samples = torch.zeros(2, 3, 32, 32)
    once, thrice = (
        buckets_of_ddp(ResNet((1, 1, 1, 1), width=8), samples, 100_000, count) for count in (1, 3)
    )
    assert thrice == once


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_gradient_dtypes(dtype: torch.dtype) -> None:
    """Boundaries follow the bytes of the gradients' own type."""

    def model() -> nn.Module:
        return nn.Sequential(*(nn.Linear(32, 32) for _ in range(8))).to(dtype)

    check(model, torch.zeros(2, 32, dtype=dtype), 10_000)


@pytest.mark.parametrize("cap_bytes", [None, 1, 4, 5])
def test_one_parameter(cap_bytes: int | None) -> None:
    """A model of one number is one bucket of four bytes."""
    assert check(lambda: nn.Linear(1, 1, bias=False), torch.zeros(2, 1), cap_bytes) == [(0, 4, 1)]


def test_a_bucket_that_meets_its_limit_exactly_is_closed() -> None:
    """Reaching the limit is enough; nothing more joins."""
    layers = [nn.Linear(16, 16, bias=False) for _ in range(4)]  # 1,024 bytes each
    buckets = check(lambda: nn.Sequential(*layers), torch.zeros(2, 16), 2048)
    assert buckets == [(0, 2048, 2), (1, 2048, 2)]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    widths=st.lists(st.integers(1, 40), min_size=2, max_size=8),
    bias=st.booleans(),
    cap_bytes=st.one_of(st.none(), st.integers(1, 20_000)),
)
def test_any_chain_of_layers(widths: list[int], bias: bool, cap_bytes: int | None) -> None:
    """Whatever the sizes and the cap, boundaries are DDP's."""

    def model() -> nn.Module:
        pairs = itertools.pairwise(widths)
        return nn.Sequential(*(nn.Linear(inputs, outputs, bias=bias) for inputs, outputs in pairs))

    check(model, torch.zeros(2, widths[0]), cap_bytes)
