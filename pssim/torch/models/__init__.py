"""The models that can be measured, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pssim.torch.models.resnet import resnet50

__all__ = ["MODELS", "TrainableModel"]


@dataclass(frozen=True, slots=True)
class TrainableModel:
    """How to build a model, and what it is trained on: classification of samples of one shape."""

    build: Callable[[], nn.Module]
    sample: str
    sample_shape: tuple[int, ...]
    classes: int
    loss: Callable[[], nn.Module] = nn.CrossEntropyLoss

    def draw(self, batch: int, seed: int = 0) -> tuple[Tensor, Tensor]:
        """A batch of random samples and targets, on torch's default device."""
        if torch.get_default_device().type == "meta":
            return torch.empty(batch, *self.sample_shape), torch.empty(batch, dtype=torch.long)
        generator = torch.Generator().manual_seed(seed)
        return (
            torch.randn(batch, *self.sample_shape, generator=generator),
            torch.randint(self.classes, (batch,), generator=generator),
        )


MODELS = {
    "resnet50": TrainableModel(resnet50, "one 224x224 RGB image, 1,000 classes", (3, 224, 224), 1000),
}
