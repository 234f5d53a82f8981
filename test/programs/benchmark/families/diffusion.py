"""One denoising step of diffusion models, and the autoencoders around them."""

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from models.layers import Attention, FeedForward, Function, repeated
from torch import nn, Tensor

from benchmark.case import Case, inference, new_input


def time_embedding(time: Tensor, width: int) -> Tensor:
    """Sines and cosines of (batch,) times: (batch, width)."""
    half = width // 2
    frequencies = torch.exp(torch.arange(half, device=time.device) * (-math.log(10000) / half)).to(time.dtype)
    angles = time[:, None] * frequencies
    return torch.cat([angles.cos(), angles.sin()], -1)


def _modulated(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    return x * (1 + scale[:, None]) + shift[:, None]


class Stream(nn.Module):
    """One of the two streams of a double block: its norms, modulation, queries, and feed-forward layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.modulation = nn.Linear(width, 6 * width)
        self.first_norm = nn.LayerNorm(width, elementwise_affine=False)
        self.second_norm = nn.LayerNorm(width, elementwise_affine=False)
        self.query_key_value, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed_forward = FeedForward(width, 4 * width)

    def attend(self, x: Tensor, parts: Sequence[Tensor], heads: int) -> tuple[Tensor, ...]:
        """Query, key and value by the parts of a modulation."""
        return _heads(self.query_key_value(_modulated(self.first_norm(x), parts[0], parts[1])), 3, heads)

    def add(self, x: Tensor, attended: Tensor, parts: Sequence[Tensor]) -> Tensor:
        """What was attended to and the feed-forward layer, both added to `x`."""
        x = x + parts[2][:, None] * self.projection(attended)
        normed = _modulated(self.second_norm(x), parts[3], parts[4])
        return x + parts[5][:, None] * self.feed_forward(normed)


def _heads(x: Tensor, parts: int, heads: int) -> tuple[Tensor, ...]:
    batch, tokens, _ = x.shape
    return x.view(batch, tokens, parts, heads, -1).permute(2, 0, 3, 1, 4).unbind(0)


def _joined(x: Tensor) -> Tensor:
    batch, _, tokens, _ = x.shape
    return x.transpose(1, 2).reshape(batch, tokens, -1)


class DoubleBlock(nn.Module):
    """MM-DiT's block: text and image with weights of their own, and attention over both."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.streams = nn.ModuleList(Stream(width) for _ in range(2))
        size = width // heads
        self.query_norm, self.key_norm = nn.RMSNorm(size), nn.RMSNorm(size)

    def forward(self, text: Tensor, image: Tensor, condition: Tensor) -> tuple[Tensor, Tensor]:
        queries, modulations = [], []
        for stream, x in zip(self.streams, (text, image)):
            modulation = stream.modulation(F.silu(condition)).chunk(6, -1)
            query, key, value = stream.attend(x, modulation, self.heads)
            queries.append((self.query_norm(query), self.key_norm(key), value))
            modulations.append(modulation)
        query, key, value = (torch.cat(parts, 2) for parts in zip(*queries))
        attended = _joined(F.scaled_dot_product_attention(query, key, value))
        of_text, of_image = torch.split(attended, [text.shape[1], image.shape[1]], 1)
        for_text, for_image = self.streams
        return for_text.add(text, of_text, modulations[0]), for_image.add(image, of_image, modulations[1])


class SingleBlock(nn.Module):
    """Flux's block on text and image together: attention and feed-forward side by side."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.width = heads, width
        self.modulation = nn.Linear(width, 3 * width)
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.inner, self.outer = nn.Linear(width, 7 * width), nn.Linear(5 * width, width)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        shift, scale, gate = self.modulation(F.silu(condition)).chunk(3, -1)
        parts = self.inner(_modulated(self.norm(x), shift, scale))
        attention, hidden = parts.split([3 * self.width, 4 * self.width], -1)
        query, key, value = _heads(attention, 3, self.heads)
        attended = _joined(F.scaled_dot_product_attention(query, key, value))
        return x + gate[:, None] * self.outer(torch.cat([attended, F.gelu(hidden)], -1))


class MmDit(nn.Module):
    """Flux (double and single blocks) or Stable Diffusion 3 (double blocks alone)."""

    def __init__(self, width: int, heads: int, double: int, single: int, channels: int = 64, distinct: int = 0) -> None:
        super().__init__()
        self.image, self.text = nn.Linear(channels, width), nn.Linear(256, width)
        self.time = nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width))
        self.double_blocks = repeated(lambda: DoubleBlock(width, heads), double, distinct)
        self.single_blocks = repeated(lambda: SingleBlock(width, heads), single, distinct)
        self.norm, self.last = nn.LayerNorm(width, elementwise_affine=False), nn.Linear(width, channels)

    def forward(self, image: Tensor, text: Tensor, time: Tensor) -> Tensor:
        condition = self.time(time_embedding(time, 256))
        x, words = self.image(image), self.text(text)
        for block in self.double_blocks:
            words, x = block(words, x, condition)
        both = torch.cat([words, x], 1)
        for block in self.single_blocks:
            both = block(both, condition)
        return self.last(self.norm(both[:, words.shape[1] :]))


def build_mmdit(device: str, *, tokens: int, words: int = 32, **sizes: int) -> Case:
    """One step on `tokens` tokens of the image and `words` of the text."""
    model = MmDit(**sizes)
    return inference(model, device, *(new_input(shape, device) for shape in ((1, tokens, 64), (1, words, 256), (1,))))


class Dit(nn.Module):
    """DiT with adaptive layer norm."""

    def __init__(self, width: int, layers: int, heads: int, patch: int, size: int, distinct: int = 0) -> None:
        super().__init__()
        self.patches = nn.Conv2d(4, width, patch, patch)
        self.positions = nn.Parameter(torch.randn(1, (size // patch) ** 2, width) * 0.02)
        self.time = nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width))
        self.streams = repeated(lambda: Stream(width), layers, distinct)
        self.norm, self.last = nn.LayerNorm(width), nn.Linear(width, patch * patch * 8)
        self.heads = heads

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        condition = F.silu(self.time(time_embedding(time, 256)))
        for stream in self.streams:
            parts = stream.modulation(condition).chunk(6, -1)
            attended = _joined(F.scaled_dot_product_attention(*stream.attend(x, parts, self.heads)))
            x = stream.add(x, attended, parts)
        return self.last(self.norm(x))


def build_dit(device: str, *, size: int = 32, **sizes: int) -> Case:
    """One step on (1, 4, size, size) latents."""
    return inference(Dit(size=size, **sizes), device, new_input((1, 4, size, size), device), new_input((1,), device))


class ResidualBlock(nn.Module):
    """Group norm, SiLU and convolution twice, with the time added between if `time` is its width."""

    def __init__(self, inputs: int, outputs: int, time: int = 0) -> None:
        super().__init__()
        self.first_norm, self.first = nn.GroupNorm(32, inputs), nn.Conv2d(inputs, outputs, 3, padding=1)
        self.time = nn.Linear(time, outputs) if time else None
        self.second_norm, self.second = nn.GroupNorm(32, outputs), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.shortcut = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: Tensor, time: Tensor | None = None) -> Tensor:
        y = self.first(F.silu(self.first_norm(x)))
        if self.time is not None and time is not None:
            y = y + self.time(F.silu(time))[:, :, None, None]
        return self.shortcut(x) + self.second(F.silu(self.second_norm(y)))


class SpatialTransformer(nn.Module):
    """Self-attention, attention to the text, and a gated feed-forward layer over the pixels."""

    def __init__(self, width: int, heads: int, context: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(32, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.own, self.cross = Attention(width, heads), Attention(width, heads, context_width=context)
        self.feed_forward = FeedForward(width, 4 * width, gated=True)
        self.inner, self.outer = nn.Conv2d(width, width, 1), nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        batch, width, height, length = x.shape
        y = self.inner(self.norm(x)).flatten(2).transpose(1, 2)
        y = y + self.own(self.norms[0](y))
        y = y + self.cross(self.norms[1](y), context=context)
        y = y + self.feed_forward(self.norms[2](y))
        return x + self.outer(y.transpose(1, 2).reshape(batch, width, height, length))


class Stage(nn.Module):
    """A residual block, and attention behind it unless `context` is 0."""

    def __init__(self, inputs: int, outputs: int, time: int, heads: int, context: int) -> None:
        super().__init__()
        self.residual = ResidualBlock(inputs, outputs, time)
        self.attention = SpatialTransformer(outputs, heads, context) if context else None

    def forward(self, x: Tensor, time: Tensor, context: Tensor) -> Tensor:
        x = self.residual(x, time)
        return x if self.attention is None else self.attention(x, context)


class UNet(nn.Module):
    """Stable Diffusion's: `blocks` residual blocks a level, attention in the levels named by `attention`."""

    def __init__(
        self,
        channels: int,
        width: int,
        context: int,
        levels: Sequence[int] = (1, 2, 4, 4),
        blocks: int = 2,
        heads: int = 8,
        attention: Sequence[int] = (0, 1, 2),
    ) -> None:
        super().__init__()
        time = 4 * width
        self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.width = width
        self.first = nn.Conv2d(channels, width, 3, padding=1)

        def stage(inputs: int, level: int) -> Stage:
            return Stage(inputs, width * levels[level], time, heads, context if level in attention else 0)

        self.down, widths, now = nn.ModuleList(), [width], width
        for level, factor in enumerate(levels):
            for _ in range(blocks):
                self.down.append(stage(now, level))
                now = width * factor
                widths.append(now)
            if level + 1 < len(levels):
                self.down.append(nn.Conv2d(now, now, 3, 2, 1))
                widths.append(now)
        self.middle = nn.ModuleList([Stage(now, now, time, heads, context), Stage(now, now, time, 0, 0)])
        self.up = nn.ModuleList()
        for level in reversed(range(len(levels))):
            for _ in range(blocks + 1):
                self.up.append(stage(now + widths.pop(), level))
                now = width * levels[level]
            if level:
                self.up.append(wider(now))
        self.norm, self.last = nn.GroupNorm(32, now), nn.Conv2d(now, channels, 3, padding=1)

    def forward(self, x: Tensor, when: Tensor, context: Tensor) -> Tensor:
        time = self.time(time_embedding(when, self.width))
        skips = [self.first(x)]
        for part in self.down:
            skips.append(part(skips[-1], time, context) if isinstance(part, Stage) else part(skips[-1]))
        x = skips[-1]
        for part in self.middle:
            x = part(x, time, context)
        for part in self.up:
            x = part(torch.cat([x, skips.pop()], 1), time, context) if isinstance(part, Stage) else part(x)
        return self.last(F.silu(self.norm(x)))


def build_unet(
    device: str, *, context: int = 768, words: int = 77, size: int = 64, channels: int = 4, **sizes: Any
) -> Case:
    """One step on (1, channels, size, size), with a text of `words` vectors."""
    shapes = ((1, channels, size, size), (1,), (1, words, context))
    model = UNet(channels, context=context, **sizes)
    return inference(model, device, *(new_input(shape, device) for shape in shapes))


class PixelAttention(nn.Module):
    """One head of attention over all pixels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.attention = nn.GroupNorm(32, width), Attention(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.attention(self.norm(x).flatten(2).transpose(1, 2))
        return x + y.transpose(1, 2).reshape(x.shape)


def wider(width: int) -> nn.Module:
    """Twice the pixels, and a convolution."""
    twice = Function(lambda x: F.interpolate(x, scale_factor=2.0, mode="nearest"))
    return nn.Sequential(twice, nn.Conv2d(width, width, 3, padding=1))


def vae(width: int, levels: tuple[int, ...], decoder: bool) -> nn.Module:
    wide = width * levels[-1]
    middle = [ResidualBlock(wide, wide), PixelAttention(wide), ResidualBlock(wide, wide)]
    factors = list(reversed(levels)) if decoder else list(levels)
    now = wide if decoder else width
    stages: list[nn.Module] = []
    for i, factor in enumerate(factors):
        for _ in range(3 if decoder else 2):
            stages.append(ResidualBlock(now, width * factor))
            now = width * factor
        if i + 1 < len(factors):
            stages.append(wider(now) if decoder else nn.Conv2d(now, now, 3, 2, 1))
    inner = [*middle, *stages] if decoder else [*stages, *middle]
    first, last = ((4, wide), (now, 3)) if decoder else ((3, width), (wide, 8))
    layers = [
        nn.Conv2d(*first, 3, padding=1),
        *inner,
        nn.GroupNorm(32, last[0]),
        nn.SiLU(),
        nn.Conv2d(*last, 3, padding=1),
    ]
    return nn.Sequential(*layers)


def build_vae(device: str, *, width: int = 128, size: int, decoder: bool = True) -> Case:
    """Decodes latents of `size`, or encodes images of `size`."""
    x = new_input((1, 4 if decoder else 3, size, size), device)
    return inference(vae(width, (1, 2, 4, 4), decoder), device, x)
