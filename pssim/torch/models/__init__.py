"""The models that can be measured, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pssim.torch.models.alexnet import alexnet
from pssim.torch.models.googlenet import googlenet
from pssim.torch.models.gpt2 import TokenLoss, gpt2
from pssim.torch.models.resnet import resnet50
from pssim.torch.models.vgg import vgg16

__all__ = ["MODELS", "TrainableModel"]


@dataclass(frozen=True, slots=True)
class TrainableModel:
    """How to build a model, and what it is trained on: classification of samples of one shape.

    If ``per_token``, a sample is a sequence of tokens, numbers below ``classes``, and each has a target.
    """

    build: Callable[[], nn.Module]
    sample: str
    sample_shape: tuple[int, ...]
    classes: int
    loss: Callable[[], nn.Module] = nn.CrossEntropyLoss
    per_token: bool = False

    def draw(self, batch: int, seed: int = 0) -> tuple[Tensor, Tensor]:
        """A batch of random samples and targets, on torch's default device."""
        shape = (batch, *self.sample_shape)
        targets = shape if self.per_token else (batch,)
        if torch.get_default_device().type == "meta":
            kind = torch.long if self.per_token else None
            return torch.empty(shape, dtype=kind), torch.empty(targets, dtype=torch.long)
        generator = torch.Generator().manual_seed(seed)
        if self.per_token:
            samples = torch.randint(self.classes, shape, generator=generator)
        else:
            samples = torch.randn(shape, generator=generator)
        return samples, torch.randint(self.classes, targets, generator=generator)


_IMAGE = ("one 224x224 RGB image, 1,000 classes", (3, 224, 224), 1000)

MODELS = {
    "alexnet": TrainableModel(alexnet, *_IMAGE),
    "googlenet": TrainableModel(googlenet, *_IMAGE),
    "gpt2": TrainableModel(
        gpt2, "one sequence of 1,024 tokens, 50,257 words", (1024,), 50_257, TokenLoss, per_token=True
    ),
    "resnet50": TrainableModel(resnet50, *_IMAGE),
    "vgg16": TrainableModel(vgg16, *_IMAGE),
}
