"""ResNet-50 for 224x224 images: He et al., Deep Residual Learning for Image Recognition, 2015, table 1.

This is the variant everybody trains today, sometimes called v1.5: where a stage halves the image, the
stride is in the 3x3 convolution of the first block, not in its first 1x1 (the paper's choice), which
costs 4.089 instead of 3.8 billion multiply-adds and learns the same 25,557,032 parameters.
"""

from __future__ import annotations

from collections import OrderedDict

from torch import Tensor, nn

__all__ = ["Bottleneck", "ResNet", "resnet50"]


def _conv(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Conv2d:
    """A convolution that keeps the image size up to the stride; batch normalisation makes a bias useless."""
    return nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)


class Bottleneck(nn.Module):
    """1x1 down to ``width`` channels, 3x3, 1x1 up to four times that, around a shortcut (figure 5, right)."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * self.expansion
        self.conv1 = _conv(inputs, width, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv2 = _conv(width, width, 3, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv3 = _conv(width, outputs, 1)
        self.bn3 = nn.BatchNorm2d(outputs)
        # The shortcut is the identity unless the shape changes (option B of the paper).
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(_conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))
        self.relu3 = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """The block's output."""
        y = self.relu1(self.bn1(self.conv1(x)))
        y = self.relu2(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return self.relu3(y + self.shortcut(x))  # type: ignore[no-any-return]


class ResNet(nn.Module):
    """A stem, four stages of bottlenecks that halve the image and double the width, and a classifier."""

    def __init__(self, blocks: tuple[int, int, int, int], width: int = 64, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            OrderedDict(
                conv=_conv(3, width, 7, 2),
                bn=nn.BatchNorm2d(width),
                relu=nn.ReLU(inplace=True),
                pool=nn.MaxPool2d(3, 2, padding=1),
            )
        )
        channels = width
        stages = OrderedDict[str, nn.Module]()
        for number, count in enumerate(blocks):
            stage = []
            for place in range(count):
                stride = 2 if number > 0 and place == 0 else 1
                stage.append(Bottleneck(channels, width * 2**number, stride))
                channels = width * 2**number * Bottleneck.expansion
            stages[f"stage{number + 1}"] = nn.Sequential(*stage)
        self.stages = nn.Sequential(stages)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.fc = nn.Linear(channels, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        """The class scores of a batch of images."""
        return self.fc(self.flatten(self.pool(self.stages(self.stem(images)))))  # type: ignore[no-any-return]


def resnet50() -> ResNet:
    """ResNet-50 with 1,000 classes: 25,557,032 parameters."""
    return ResNet((3, 4, 6, 3))
