"""The models of our own, against the published counts."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from pssim.torch.models import MODELS
from pssim.torch.models.resnet import ResNet, resnet50


def test_resnet50_has_the_published_parameters_and_flops() -> None:
    """25,557,032 parameters and 4.089 GMAC a 224x224 image (He et al. 2015, stride in the 3x3)."""
    with torch.device("meta"):
        model = resnet50()
        images = torch.empty(1, 3, 224, 224)
    counter = FlopCounterMode(display=False)
    with counter:
        scores = model(images)
    assert sum(parameter.numel() for parameter in model.parameters()) == 25_557_032
    assert counter.get_total_flops() == 8_178_368_512
    assert scores.shape == (1, 1000)


def test_resnet50_has_the_layers_of_table_1() -> None:
    """Fifty of them learn weights, not counting normalisation and the shortcuts' projections."""
    with torch.device("meta"):
        model = resnet50()
    kinds = [
        type(module).__name__ for name, module in model.named_modules() if "shortcut" not in name
    ]
    assert kinds.count("Conv2d") + kinds.count("Linear") == 50


def test_the_image_is_halved_in_the_3x3_convolutions() -> None:
    """One a stage but the first: the variant whose FLOPs are quoted everywhere."""
    with torch.device("meta"):
        model = resnet50()
    strided = {
        name: module.kernel_size
        for name, module in model.named_modules()
        if isinstance(module, nn.Conv2d) and module.stride == (2, 2) and "shortcut" not in name
    }
    assert strided == {"stem.conv": (7, 7)} | {f"stages.stage{n}.0.conv2": (3, 3) for n in (2, 3, 4)}


def test_a_small_resnet_learns() -> None:
    """Its loss on one batch falls when it follows the gradient, so every part is connected."""
    torch.manual_seed(0)
    model = ResNet((1, 1, 1, 1), width=8, classes=4)
    images, targets = torch.randn(8, 3, 32, 32), torch.arange(8) % 4
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(12):
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(model(images), targets)
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("name", MODELS)
def test_samples_fit_the_model(name: str) -> None:
    """Each model takes the samples it draws; the same seed draws the same."""
    samples, targets = MODELS[name].draw(2)
    assert torch.equal(samples, MODELS[name].draw(2)[0])
    assert samples.shape == (2, *MODELS[name].sample_shape)
    assert int(targets.max()) < MODELS[name].classes
