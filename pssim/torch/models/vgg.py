"""VGG-16 for 224x224 images: Simonyan and Zisserman, Very Deep Convolutional Networks, 2014, column D.

All weights start at random; the paper takes some of them from a shallower network, trained before.
"""

from __future__ import annotations

from collections import OrderedDict

from torch import Tensor, nn

__all__ = ["VGG", "vgg16"]


class VGG(nn.Module):
    """Stages of 3x3 convolutions, each ending in a pool that halves the image, and three full layers."""

    def __init__(
        self,
        convolutions: tuple[int, ...],
        width: int = 64,
        hidden: int = 4096,
        classes: int = 1000,
        image: int = 224,
    ) -> None:
        super().__init__()
        inputs = 3
        stages = OrderedDict[str, nn.Module]()
        for number, count in enumerate(convolutions):
            outputs = width * min(2**number, 8)
            stage = OrderedDict[str, nn.Module]()
            for place in range(1, count + 1):
                stage[f"conv{place}"] = nn.Conv2d(inputs, outputs, 3, padding=1)
                stage[f"relu{place}"] = nn.ReLU(inplace=True)
                inputs = outputs
            stage["pool"] = nn.MaxPool2d(2, 2)
            stages[f"stage{number + 1}"] = nn.Sequential(stage)
            image //= 2
        self.stages = nn.Sequential(stages)
        self.flatten = nn.Flatten()
        self.classifier = nn.Sequential(
            OrderedDict(
                fc1=nn.Linear(inputs * image**2, hidden),
                relu1=nn.ReLU(inplace=True),
                drop1=nn.Dropout(0.5),
                fc2=nn.Linear(hidden, hidden),
                relu2=nn.ReLU(inplace=True),
                drop2=nn.Dropout(0.5),
                fc3=nn.Linear(hidden, classes),
            )
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.01)

    def forward(self, images: Tensor) -> Tensor:
        """The class scores of a batch of images."""
        return self.classifier(self.flatten(self.stages(images)))  # type: ignore[no-any-return]


def vgg16() -> VGG:
    """VGG-16 with 1,000 classes: 138,357,544 parameters."""
    return VGG((2, 2, 3, 3, 3))
