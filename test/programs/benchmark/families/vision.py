"""Image classifiers at the sizes of their papers."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from models.layers import Added, Attention, FeedForward, Function, Stack, SWAPPED
from torch import nn, Tensor

from benchmark.case import Case, inference, new_input

CLASSES = 1000


def _convolution(
    inputs: int,
    outputs: int,
    kernel: int,
    stride: int = 1,
    groups: int = 1,
    activation: type[nn.Module] | None = nn.ReLU,
) -> nn.Sequential:
    layers: list[nn.Module] = [
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*layers, *([activation()] if activation else []))


class Residual(nn.Module):
    """ResNet's basic block, or its bottleneck with `expansion` 4."""

    def __init__(self, inputs: int, width: int, stride: int, expansion: int) -> None:
        super().__init__()
        outputs = width * expansion
        if expansion == 1:
            parts = (_convolution(inputs, width, 3, stride), _convolution(width, width, 3, activation=None))
        else:
            parts = (  # type: ignore[assignment]
                _convolution(inputs, width, 1),
                _convolution(width, width, 3, stride),
                _convolution(width, outputs, 1, activation=None),
            )
        self.inner = nn.Sequential(*parts)
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else _convolution(inputs, outputs, 1, stride, activation=None)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.inner(x) + self.shortcut(x))


def resnet(blocks: tuple[int, ...], expansion: int, width: int = 64) -> nn.Module:
    """ResNet for (batch, 3, size, size)."""
    layers: list[nn.Module] = [_convolution(3, width, 7, 2), nn.MaxPool2d(3, 2, 1)]
    channels = width
    for stage, count in enumerate(blocks):
        for i in range(count):
            stride = 2 if stage > 0 and i == 0 else 1
            layers.append(Residual(channels, width << stage, stride, expansion))
            channels = (width << stage) * expansion
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES))


def vgg(stages: tuple[int, ...]) -> nn.Module:
    """VGG without its dropout, with global pooling in front of the classifier."""
    layers: list[nn.Module] = []
    channels = 3
    for stage, count in enumerate(stages):
        width = min(64 << stage, 512)
        for _ in range(count):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
            channels = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES))


class Scaled(nn.Sequential):
    """Layers whose result is a factor of their input."""

    def forward(self, x: Tensor) -> Tensor:
        return x * super().forward(x)  # type: ignore[no-untyped-call]


def inverted(inputs: int, outputs: int, kernel: int, stride: int, expansion: int, squeeze: bool) -> nn.Module:
    """The inverted bottleneck of MobileNetV2, with EfficientNet's squeeze and excitation if `squeeze`."""
    inner, fewer, activation = inputs * expansion, max(1, inputs // 4), nn.SiLU if squeeze else nn.ReLU6
    parts: list[nn.Module] = [_convolution(inputs, inner, 1, activation=activation)] if expansion > 1 else []
    parts.append(_convolution(inner, inner, kernel, stride, groups=inner, activation=activation))
    if squeeze:
        ends = nn.Conv2d(inner, fewer, 1), nn.Conv2d(fewer, inner, 1)
        parts.append(Scaled(nn.AdaptiveAvgPool2d(1), ends[0], nn.SiLU(), ends[1], nn.Sigmoid()))
    parts.append(_convolution(inner, outputs, 1, activation=None))
    return (Added if stride == 1 and inputs == outputs else nn.Sequential)(*parts)


# expansion, outputs, blocks, stride, kernel
_MOBILE = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 32, 3, 2, 3),
    (6, 64, 4, 2, 3),
    (6, 96, 3, 1, 3),
    (6, 160, 3, 2, 3),
    (6, 320, 1, 1, 3),
)
_EFFICIENT = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)


def inverted_net(stages: tuple[tuple[int, int, int, int, int], ...], squeeze: bool) -> nn.Module:
    """MobileNetV2 or EfficientNet-B0."""
    activation = nn.SiLU if squeeze else nn.ReLU6
    layers: list[nn.Module] = [_convolution(3, 32, 3, 2, activation=activation)]
    channels = 32
    for expansion, outputs, blocks, stride, kernel in stages:
        for i in range(blocks):
            layers.append(inverted(channels, outputs, kernel, stride if i == 0 else 1, expansion, squeeze))
            channels = outputs
    layers.append(_convolution(channels, 1280, 1, activation=activation))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, CLASSES))


class Dense(nn.Sequential):
    """DenseNet's layer: its result is put next to its input."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, super().forward(x)], 1)  # type: ignore[no-untyped-call]


def _activated(channels: int) -> tuple[nn.Module, nn.Module]:
    return nn.BatchNorm2d(channels), nn.ReLU()


def densenet(blocks: tuple[int, ...], growth: int = 32) -> nn.Module:
    layers: list[nn.Module] = [_convolution(3, 2 * growth, 7, 2), nn.MaxPool2d(3, 2, 1)]
    channels, inner = 2 * growth, 4 * growth
    for stage, count in enumerate(blocks):
        for _ in range(count):
            first = nn.Conv2d(channels, inner, 1, bias=False)
            second = nn.Conv2d(inner, growth, 3, padding=1, bias=False)
            layers.append(Dense(*_activated(channels), first, *_activated(inner), second))
            channels += growth
        if stage + 1 < len(blocks):
            narrower = nn.Conv2d(channels, channels // 2, 1, bias=False)
            layers += [*_activated(channels), narrower, nn.AvgPool2d(2)]
            channels //= 2
    layers += [*_activated(channels), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(channels, CLASSES))


# From (batch, channels, height, width) to (batch, height, width, channels), and the way back.
CHANNELS_LAST = Function(lambda x: x.permute(0, 2, 3, 1))
CHANNELS_FIRST = Function(lambda x: x.permute(0, 3, 1, 2))


class Scale(nn.Module):
    """A factor for each channel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.factors = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factors


def convnext(blocks: tuple[int, ...], width: int = 96) -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, width, 4, 4), CHANNELS_LAST, nn.LayerNorm(width), CHANNELS_FIRST]
    for stage, count in enumerate(blocks):
        if stage:
            layers += [CHANNELS_LAST, nn.LayerNorm(width), CHANNELS_FIRST, nn.Conv2d(width, 2 * width, 2, 2)]
            width *= 2
        for _ in range(count):
            deep = nn.Conv2d(width, width, 7, padding=3, groups=width)
            mixed = (nn.LayerNorm(width), FeedForward(width, 4 * width), Scale(width))
            layers.append(Added(deep, CHANNELS_LAST, *mixed, CHANNELS_FIRST))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(width), nn.Linear(width, CLASSES))


class VisionTransformer(nn.Module):
    """ViT with a class token."""

    def __init__(self, width: int, layers: int, heads: int, size: int, patch: int, distinct: int = 0) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, width) * 0.02)
        self.stack = Stack(layers, distinct, width=width, heads=heads, hidden=4 * width)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.stack(x)[:, 0]))


class WindowBlock(nn.Module):
    """Swin's block on (batch, side, side, width): attention in windows, shifted by half a window if `shifted`."""

    def __init__(self, width: int, heads: int, window: int, shifted: bool) -> None:
        super().__init__()
        self.window, self.shift = window, window // 2 if shifted else 0
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.feed_forward = Attention(width, heads), FeedForward(width, 4 * width)

    def forward(self, x: Tensor) -> Tensor:
        batch, side, _, width = x.shape
        count, window = side // self.window, self.window
        y = self.first_norm(x)
        if self.shift:
            y = torch.roll(y, (-self.shift, -self.shift), (1, 2))
        y = y.view(batch, count, window, count, window, width).transpose(2, 3).reshape(-1, window * window, width)
        y = self.attention(y)
        y = y.view(batch, count, count, window, window, width).transpose(2, 3).reshape(batch, side, side, width)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), (1, 2))
        x = x + y
        return x + self.feed_forward(self.second_norm(x))


def _neighbours(x: Tensor) -> Tensor:
    """Four neighbours become one of four times the width."""
    return torch.cat([x[:, i::2, j::2] for i in range(2) for j in range(2)], -1)


def swin(blocks: tuple[int, ...], width: int = 96, heads: int = 3, window: int = 7) -> nn.Module:
    """Swin without its masks and position biases."""
    layers: list[nn.Module] = [nn.Conv2d(3, width, 4, 4), CHANNELS_LAST]
    for stage, count in enumerate(blocks):
        if stage:
            layers += [Function(_neighbours), nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False)]
            width, heads = 2 * width, 2 * heads
        layers += [WindowBlock(width, heads, window, i % 2 == 1) for i in range(count)]
    return nn.Sequential(*layers, nn.LayerNorm(width), Function(lambda x: x.mean((1, 2))), nn.Linear(width, CLASSES))


def mixer(layers: int, width: int, size: int, patch: int) -> nn.Module:
    """MLP-Mixer: feed-forward layers over tokens and over channels in turn."""
    parts: list[nn.Module] = [nn.Conv2d(3, width, patch, patch), nn.Flatten(2), SWAPPED]
    for _ in range(layers):
        over_tokens = FeedForward((size // patch) ** 2, width // 2)
        parts.append(Added(nn.LayerNorm(width), SWAPPED, over_tokens, SWAPPED))
        parts.append(Added(nn.LayerNorm(width), FeedForward(width, 4 * width)))
    return nn.Sequential(*parts, nn.LayerNorm(width), Function(lambda x: x.mean(1)), nn.Linear(width, CLASSES))


# By name, what makes a model for images of a size.
NETWORKS: dict[str, Callable[[int], nn.Module]] = {
    "resnet18": lambda _size: resnet((2, 2, 2, 2), 1),
    "resnet50": lambda _size: resnet((3, 4, 6, 3), 4),
    "resnet101": lambda _size: resnet((3, 4, 23, 3), 4),
    "resnet-narrow": lambda _size: resnet((2, 2, 2, 2), 1, width=16),
    "vgg16": lambda _size: vgg((2, 2, 3, 3, 3)),
    "mobilenet-v2": lambda _size: inverted_net(_MOBILE, squeeze=False),
    "efficientnet-b0": lambda _size: inverted_net(_EFFICIENT, squeeze=True),
    "densenet121": lambda _size: densenet((6, 12, 24, 16)),
    "convnext-tiny": lambda _size: convnext((3, 3, 9, 3)),
    "vit-tiny": lambda size: VisionTransformer(192, 12, 3, size, 16),
    "vit-small": lambda size: VisionTransformer(384, 12, 6, size, 16),
    "vit-base": lambda size: VisionTransformer(768, 12, 12, size, 16),
    "vit-large": lambda size: VisionTransformer(1024, 24, 16, size, 16, distinct=4),
    "swin-tiny": lambda _size: swin((2, 2, 6, 2)),
    "mixer-small": lambda size: mixer(8, 512, size, 16),
}


def build_classifier(device: str, *, network: str, batch: int = 1, size: int = 224) -> Case:
    return inference(NETWORKS[network](size), device, new_input((batch, 3, size, size), device))
