"""Torchvision's image nets as feature extractors, their weights always drawn anew and nothing ever downloaded.

The first convolution takes as many channels as the images have. Images whose shorter side is below 24 pixels would
shrink to a single pixel within the first layers; for them that convolution is 3 x 3 with stride 1, and the max
pooling after it is left out. Larger ones, MNIST's 28 x 28 among them, pass torchvision's own first layers.

The pooled feature of the net (256, 512, 1280, 1024 and 1280 wide, in the order below) is brought to `feature_dim` by
average pooling along itself, which repeats entries where it must widen; signs stay as the net gives them. The head is
linear alone: EfficientNet's dropout before it is left out.
"""

from __future__ import annotations

import torch
import torchvision
from torch import nn
from torchvision.models.resnet import BasicBlock, ResNet

from models.nets.net import Net, image_shape

_SMALL = 24
"""Images with a shorter side than this keep their size in the first layers."""

_GROUPS = 32
"""Groups of a group norm, as in Wu and He, ECCV 2018."""


class Backbone(Net):
    """A net whose `body` gives a pooled feature [B, W] of its own width W."""

    body: nn.Module

    def __init__(self, input_shape: tuple[int, ...], feature_dim: int, num_classes: int) -> None:
        super().__init__(feature_dim, num_classes)
        self.channels, height, width = image_shape(input_shape)
        self.takes_small = min(height, width) < _SMALL
        self.resize = nn.AdaptiveAvgPool1d(feature_dim)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """Return the features [B, D]."""
        made: torch.Tensor = self.resize(self.body(x))
        return made

    def _first(self, own: nn.Conv2d) -> nn.Conv2d:
        """Return the first convolution for these images in place of the net's own."""
        size, stride = (3, 1) if self.takes_small else (own.kernel_size[0], own.stride[0])
        made = nn.Conv2d(self.channels, own.out_channels, size, stride, padding=size // 2, bias=False)
        nn.init.kaiming_normal_(made.weight, mode="fan_out", nonlinearity="relu")
        return made

    def _pooling(self, own: nn.Module) -> nn.Module:
        return nn.Identity() if self.takes_small else own


class ResNet18(Backbone):
    """He et al., CVPR 2016; `norm` is `batch` or `group`."""

    num_blocks = (2, 2, 2, 2)

    def __init__(self, input_shape: tuple[int, ...], feature_dim: int, num_classes: int, norm: str = "batch") -> None:
        super().__init__(input_shape, feature_dim, num_classes)
        body = ResNet(
            BasicBlock, list(self.num_blocks), num_classes=1, norm_layer=_group_norm if norm == "group" else None
        )
        body.conv1, body.maxpool, body.fc = self._first(body.conv1), self._pooling(body.maxpool), nn.Identity()
        self.body = body


class ResNet8(ResNet18):
    """A ResNet of one block each at 64, 128 and 256 channels."""

    num_blocks = (1, 1, 1, 1)

    def __init__(self, input_shape: tuple[int, ...], feature_dim: int, num_classes: int, norm: str = "batch") -> None:
        super().__init__(input_shape, feature_dim, num_classes, norm)
        self.body.layer4 = nn.Identity()


class MobileNetV2(Backbone):
    """Sandler et al., CVPR 2018."""

    def __init__(self, input_shape: tuple[int, ...], feature_dim: int, num_classes: int) -> None:
        super().__init__(input_shape, feature_dim, num_classes)
        body = torchvision.models.mobilenet_v2(weights=None, num_classes=1)
        body.features[0][0], body.classifier = self._first(body.features[0][0]), nn.Identity()
        self.body = body


class ShuffleNetV2(Backbone):
    """Ma et al., ECCV 2018, of width 1.0."""

    def __init__(self, input_shape: tuple[int, ...], feature_dim: int, num_classes: int) -> None:
        super().__init__(input_shape, feature_dim, num_classes)
        body = torchvision.models.shufflenet_v2_x1_0(weights=None, num_classes=1)
        body.conv1[0], body.maxpool, body.fc = self._first(body.conv1[0]), self._pooling(body.maxpool), nn.Identity()
        self.body = body


class EfficientNetB0(Backbone):
    """Tan and Le, ICML 2019."""

    def __init__(self, input_shape: tuple[int, ...], feature_dim: int, num_classes: int) -> None:
        super().__init__(input_shape, feature_dim, num_classes)
        body = torchvision.models.efficientnet_b0(weights=None, num_classes=1)
        body.features[0][0], body.classifier = self._first(body.features[0][0]), nn.Identity()
        self.body = body


def _group_norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(_GROUPS, channels)
