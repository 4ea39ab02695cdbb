"""AlexNet for 224x224 images, in one tower: Krizhevsky, One weird trick, 2014, arXiv:1404.5997.

The network of 2012 was split in two halves for two GPUs; this one is whole.  It is the variant whose
61,100,840 parameters are quoted everywhere: 256 filters in the fourth convolution, as in the author's code
for one GPU, where a footnote of the paper says 384; and no local response normalisation.
"""

from __future__ import annotations

from collections import OrderedDict

from torch import Tensor, nn

__all__ = ["AlexNet", "alexnet"]


class AlexNet(nn.Module):
    """Five convolutions, three of them followed by an overlapping pool, and three full layers.

    ``width`` is that of the first convolution; the others are in proportion.
    """

    def __init__(self, width: int = 64, hidden: int = 4096, classes: int = 1000) -> None:
        super().__init__()
        self.features = nn.Sequential(
            OrderedDict(
                conv1=nn.Conv2d(3, width, 11, 4, padding=2),
                relu1=nn.ReLU(inplace=True),
                pool1=nn.MaxPool2d(3, 2),
                conv2=nn.Conv2d(width, 3 * width, 5, padding=2),
                relu2=nn.ReLU(inplace=True),
                pool2=nn.MaxPool2d(3, 2),
                conv3=nn.Conv2d(3 * width, 6 * width, 3, padding=1),
                relu3=nn.ReLU(inplace=True),
                conv4=nn.Conv2d(6 * width, 4 * width, 3, padding=1),
                relu4=nn.ReLU(inplace=True),
                conv5=nn.Conv2d(4 * width, 4 * width, 3, padding=1),
                relu5=nn.ReLU(inplace=True),
                pool5=nn.MaxPool2d(3, 2),
            )
        )
        self.flatten = nn.Flatten()
        self.classifier = nn.Sequential(
            OrderedDict(
                drop6=nn.Dropout(0.5),
                fc6=nn.Linear(4 * width * 6 * 6, hidden),
                relu6=nn.ReLU(inplace=True),
                drop7=nn.Dropout(0.5),
                fc7=nn.Linear(hidden, hidden),
                relu7=nn.ReLU(inplace=True),
                fc8=nn.Linear(hidden, classes),
            )
        )

    def forward(self, images: Tensor) -> Tensor:
        """The class scores of a batch of images."""
        return self.classifier(self.flatten(self.features(images)))  # type: ignore[no-any-return]


def alexnet() -> AlexNet:
    """AlexNet in one tower with 1,000 classes: 61,100,840 parameters."""
    return AlexNet()
