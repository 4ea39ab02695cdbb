"""VGG-16, AlexNet, GoogLeNet and GPT-2 against the published counts, and small ones of each kind at work."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from click.testing import CliRunner
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from pssim.cli.calibrate import calibrate
from pssim.errors import InputError
from pssim.torch.models import MODELS, TrainableModel
from pssim.torch.models.alexnet import AlexNet
from pssim.torch.models.googlenet import GoogLeNet
from pssim.torch.models.gpt2 import GPT2, TokenLoss
from pssim.torch.models.vgg import VGG
from pssim.torch.profiler import measure
from pssim.torch.watch import Watch


def conv(side: int, inputs: int, outputs: int, size: int) -> int:
    """FLOPs of a convolution whose output is ``side`` pixels wide and high."""
    return 2 * side**2 * inputs * outputs * size**2


def full(inputs: int, outputs: int) -> int:
    return 2 * inputs * outputs


def vgg16_flops() -> int:
    layers = [(224, 3, 64), (224, 64, 64), (112, 64, 128), (112, 128, 128)]
    layers += [(56, 128, 256), (56, 256, 256), (56, 256, 256)]
    layers += [(28, 256, 512), (28, 512, 512), (28, 512, 512)] + [(14, 512, 512)] * 3
    classifier = full(512 * 7 * 7, 4096) + full(4096, 4096) + full(4096, 1000)
    return sum(conv(*layer, 3) for layer in layers) + classifier


def alexnet_flops() -> int:
    features = conv(55, 3, 64, 11) + conv(27, 64, 192, 5)
    features += conv(13, 192, 384, 3) + conv(13, 384, 256, 3) + conv(13, 256, 256, 3)
    return features + full(256 * 6 * 6, 4096) + full(4096, 4096) + full(4096, 1000)


def googlenet_flops() -> int:
    """Table 1 of the paper, row by row, with 3x3 for 5x5."""
    rows = [
        (28, 192, (64, 96, 128, 16, 32, 32)),
        (28, 256, (128, 128, 192, 32, 96, 64)),
        (14, 480, (192, 96, 208, 16, 48, 64)),
        (14, 512, (160, 112, 224, 24, 64, 64)),
        (14, 512, (128, 128, 256, 24, 64, 64)),
        (14, 512, (112, 144, 288, 32, 64, 64)),
        (14, 528, (256, 160, 320, 32, 128, 128)),
        (7, 832, (256, 160, 320, 32, 128, 128)),
        (7, 832, (384, 192, 384, 48, 128, 128)),
    ]
    total = conv(112, 3, 64, 7) + conv(56, 64, 64, 1) + conv(56, 64, 192, 3) + full(1024, 1000)
    for side, inputs, (plain, reduce3, conv3, reduce5, conv5, pool) in rows:
        total += conv(side, inputs, plain + reduce3 + reduce5 + pool, 1)
        total += conv(side, reduce3, conv3, 3) + conv(side, reduce5, conv5, 3)
    return total


def gpt2_flops() -> int:
    """Attention is counted as the whole square, though half of it is masked."""
    tokens, width = 1024, 768
    block = tokens * (full(width, 3 * width) + full(width, width) + 2 * full(width, 4 * width))
    attention = 2 * (2 * tokens**2 * width)
    return 12 * (block + attention) + tokens * full(width, 50_257)


PUBLISHED = {
    "alexnet": (61_100_840, 0.714, alexnet_flops()),
    "googlenet": (6_624_904, 1.50, googlenet_flops()),
    "gpt2": (124_439_808, 145.8, gpt2_flops()),
    "vgg16": (138_357_544, 15.47, vgg16_flops()),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_and_flops_are_the_published_ones(name: str) -> None:
    """Counted as the profiler counts them; all parameters get gradients, for twice the work."""
    parameters, multiply_adds, flops = PUBLISHED[name]
    with torch.device("meta"):
        model, loss = MODELS[name].build(), MODELS[name].loss()
        samples, targets = MODELS[name].draw(2)
    counter = FlopCounterMode(display=False)
    with counter, Watch(model, loss, counter.get_total_flops) as watch:
        forward, backward = watch.run(samples, targets)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters
    assert forward == 2 * flops
    assert flops / 2e9 == pytest.approx(multiply_adds, rel=2e-3)
    assert watch.backward.keys() == dict(model.named_parameters()).keys()
    # Images need no gradient of their own, which saves the first convolution half of its work.
    first = next(count for count in watch.forward.values() if count)
    assert backward == 2 * forward - (0 if name == "gpt2" else first)


def small_vgg() -> nn.Module:
    return VGG((1, 2), width=8, hidden=32, classes=4, image=16)


def small_alexnet() -> nn.Module:
    return AlexNet(width=4, hidden=32, classes=4)


def small_gpt2() -> GPT2:
    return GPT2(layers=2, width=16, heads=2, vocabulary=11, context=8)


def images(side: int) -> Callable[[], Tensor]:
    return lambda: torch.randn(4, 3, side, side)


@pytest.mark.parametrize(
    ("build", "draw", "loss", "shape"),
    [
        (small_vgg, images(16), nn.CrossEntropyLoss(), (4,)),
        (small_alexnet, images(224), nn.CrossEntropyLoss(), (4,)),
        (lambda: GoogLeNet(classes=4), images(32), nn.CrossEntropyLoss(), (4,)),
        (small_gpt2, lambda: torch.arange(32).reshape(4, 8) % 11, TokenLoss(), (4, 8)),
    ],
    ids=["vgg", "alexnet", "googlenet", "gpt2"],
)
def test_a_gradient_reaches_every_parameter(
    build: Callable[[], nn.Module], draw: Callable[[], Tensor], loss: nn.Module, shape: tuple[int, ...]
) -> None:
    torch.manual_seed(0)
    model, samples = build(), draw()
    loss(model(samples), torch.randint(4, shape)).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.any(), name


def test_gpt2_does_not_see_the_tokens_to_come() -> None:
    torch.manual_seed(0)
    model, tokens = small_gpt2(), torch.arange(8)[None]
    changed = tokens.clone()
    changed[0, 5] = 10
    with torch.no_grad():
        before, after = model(tokens)[0], model(changed)[0]
    assert torch.allclose(before[:5], after[:5], atol=1e-6)
    assert not torch.isclose(before[5:], after[5:], atol=1e-6).all(dim=1).any()


def test_the_loss_of_a_token_is_that_of_a_guess_at_first() -> None:
    torch.manual_seed(0)
    scores, targets = torch.zeros(2, 8, 11), torch.randint(11, (2, 8))
    assert float(TokenLoss()(scores, targets)) == pytest.approx(torch.tensor(11.0).log().item())


def test_a_model_of_tokens_can_be_measured() -> None:
    """Its tied embedding is one gradient, the last to arrive, and belongs to the first layer."""
    model = TrainableModel(small_gpt2, "8 tokens", (8,), 11, TokenLoss, per_token=True)
    made = measure("small", model, batches=[1, 2], threads=1, repeats=3)
    assert made.gradients[-1].name == "tokens.weight"
    assert made.gradients[-1].layer == made.layers[0].name == "tokens"
    assert [layer.name for layer in made.layers[-3:]] == ["norm", "scores", "loss"]
    assert made.layers[-2].forward_flops == 8 * full(16, 11)
    assert made.parameters == sum(parameter.numel() for parameter in small_gpt2().parameters())


def test_calibrate_names_all_models() -> None:
    """In its help, which cannot ask PyTorch, and when it does not know the one asked for."""
    *others, last = MODELS
    help_text = " ".join(CliRunner().invoke(calibrate, ["model", "--help"]).output.split())
    assert f"NAME is one of {', '.join(others)} and {last}." in help_text
    with pytest.raises(InputError, match=f"model must be one of {', '.join(MODELS)}, it is 'vgg'"):
        raise CliRunner().invoke(calibrate, ["model", "vgg"]).exception  # type: ignore[misc]
