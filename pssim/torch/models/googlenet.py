"""GoogLeNet for 224x224 images: Szegedy et al., Going Deeper with Convolutions, 2015, table 1.

This is the variant that is trained today: batch normalisation after every convolution, no auxiliary
heads, and 3x3 convolutions where the paper has 5x5.  The last is a slip of early implementations that
stayed, for weights trained with it were published; so are its 6,624,904 parameters.
"""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import Tensor, nn

__all__ = ["GoogLeNet", "Inception", "googlenet"]

_Widths = tuple[int, int, int, int, int, int]

# Rows of table 1: #1x1, #3x3 reduce, #3x3, #5x5 reduce, #5x5, pool proj.
_STAGES: dict[str, tuple[_Widths, ...]] = {
    "inception3": ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64)),
    "inception4": (
        (192, 96, 208, 16, 48, 64),
        (160, 112, 224, 24, 64, 64),
        (128, 128, 256, 24, 64, 64),
        (112, 144, 288, 32, 64, 64),
        (256, 160, 320, 32, 128, 128),
    ),
    "inception5": ((256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)),
}


def _conv(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Sequential:
    """A convolution that keeps the image size up to the stride, normalised, and its ReLU."""
    return nn.Sequential(
        OrderedDict(
            conv=nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False),
            bn=nn.BatchNorm2d(outputs),
            relu=nn.ReLU(inplace=True),
        )
    )


def _halve() -> nn.MaxPool2d:
    return nn.MaxPool2d(3, 2, ceil_mode=True)


class Inception(nn.Module):
    """Four branches side by side, their channels put together (figure 2b)."""

    def __init__(self, inputs: int, widths: _Widths) -> None:
        super().__init__()
        plain, reduce3, conv3, reduce5, conv5, pool = widths
        self.outputs = plain + conv3 + conv5 + pool
        self.plain = _conv(inputs, plain, 1)
        self.conv3 = nn.Sequential(_conv(inputs, reduce3, 1), _conv(reduce3, conv3, 3))
        self.conv5 = nn.Sequential(_conv(inputs, reduce5, 1), _conv(reduce5, conv5, 3))
        self.pool = nn.Sequential(nn.MaxPool2d(3, 1, padding=1), _conv(inputs, pool, 1))

    def forward(self, x: Tensor) -> Tensor:
        """The outputs of the branches, one after another."""
        return torch.cat([self.plain(x), self.conv3(x), self.conv5(x), self.pool(x)], dim=1)


class GoogLeNet(nn.Module):
    """A stem, nine inception modules in three stages, and a classifier; any image size will do."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            OrderedDict(
                conv1=_conv(3, 64, 7, 2), pool1=_halve(), conv2=_conv(64, 64, 1), conv3=_conv(64, 192, 3)
            )
        )
        channels = 192
        stages = OrderedDict[str, nn.Module]()
        for name, modules in _STAGES.items():
            stage = OrderedDict[str, nn.Module](pool=_halve())
            for letter, widths in zip("abcde", modules, strict=False):
                module = stage[letter] = Inception(channels, widths)
                channels = module.outputs
            stages[name] = nn.Sequential(stage)
        self.stages = nn.Sequential(stages)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.drop = nn.Dropout(0.4)
        self.fc = nn.Linear(channels, classes)

    def forward(self, images: Tensor) -> Tensor:
        """The class scores of a batch of images."""
        features = self.flatten(self.pool(self.stages(self.stem(images))))
        return self.fc(self.drop(features))  # type: ignore[no-any-return]


def googlenet() -> GoogLeNet:
    """GoogLeNet with 1,000 classes: 6,624,904 parameters."""
    return GoogLeNet()
