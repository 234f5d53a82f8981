"""Parts of transformers that several families use."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn, Tensor


@dataclass
class Surroundings:
    """What all layers of one pass share.

    `cosine`, `sine`: (tokens, width of a head), rotary positions; `position`: (1,) int64, where decoding writes its keys
    and values; `mask`: boolean, broadcasts to (batch, heads, tokens, keys), True where a key may be seen.
    """

    causal: bool = False
    cosine: Tensor | None = None
    sine: Tensor | None = None
    position: Tensor | None = None
    mask: Tensor | None = None
    # what cross attention looks at
    context: Tensor | None = None


ALONE = Surroundings()


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotary positions (Su et al. 2021) of (batch, heads, tokens, width), the halves of the width as pairs."""
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat([-second, first], -1) * sine


def rotary_tables(length: int, width: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines, each (length, width)."""
    frequencies = 10000.0 ** (-torch.arange(0, width, 2) / width)
    angles = torch.arange(length)[:, None] * torch.cat([frequencies, frequencies])
    return angles.cos(), angles.sin()


class Function(nn.Module):
    """A function as a layer."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class Added(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        return x + super().forward(x)  # type: ignore[no-untyped-call]


# From (batch, width, tokens) to (batch, tokens, width), and the way back.
SWAPPED = Function(lambda x: x.transpose(1, 2))


Cache = tuple[Tensor, Tensor]
Caches = list[Cache]


def new_caches(layers: int, shape: Sequence[int], device: str) -> tuple[Caches, Callable[[], Sequence[Tensor]]]:
    """Keys and values of each layer, and what lists them all."""
    caches = [(torch.zeros(shape, device=device), torch.zeros(shape, device=device)) for _ in range(layers)]
    return caches, lambda: [part for cache in caches for part in cache]


class Attention(nn.Module):
    """Attention with grouped keys and values. Maps (batch, tokens, width) to the same."""

    def __init__(
        self,
        width: int,
        heads: int,
        groups: int = 0,
        head_width: int = 0,
        bias: bool = True,
        context_width: int = 0,
    ) -> None:
        super().__init__()
        self.heads, self.groups = heads, groups or heads
        self.size = head_width or width // heads
        self.query = nn.Linear(width, heads * self.size, bias=bias)
        self.key = nn.Linear(context_width or width, self.groups * self.size, bias=bias)
        self.value = nn.Linear(context_width or width, self.groups * self.size, bias=bias)
        self.projection = nn.Linear(heads * self.size, width, bias=bias)

    def _split(self, x: Tensor, heads: int) -> Tensor:
        batch, tokens, _ = x.shape
        return x.view(batch, tokens, heads, self.size).transpose(1, 2)

    def forward(
        self, x: Tensor, around: Surroundings = ALONE, cache: Cache | None = None, context: Tensor | None = None
    ) -> Tensor:
        batch, tokens, _ = x.shape
        source = x if context is None else context
        query = self._split(self.query(x), self.heads)
        key = self._split(self.key(source), self.groups)
        value = self._split(self.value(source), self.groups)
        if around.cosine is not None and around.sine is not None:
            query, key = (rotate(part, around.cosine, around.sine) for part in (query, key))
        if cache is not None and around.position is not None:
            keys, values = cache
            keys[:, :, around.position] = key
            values[:, :, around.position] = value
            key, value = keys, values
        if self.groups != self.heads:
            key, value = (part.repeat_interleave(self.heads // self.groups, 1) for part in (key, value))
        mask = around.mask if context is None else None
        causal = around.causal and context is None
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)
        return self.projection(attended.transpose(1, 2).reshape(batch, tokens, -1))


class FeedForward(nn.Module):
    """GELU between two linear layers, or SwiGLU with `gated`."""

    def __init__(self, width: int, hidden: int, gated: bool = False, bias: bool = True) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=bias) if gated else None
        self.up = nn.Linear(width, hidden, bias=bias)
        self.down = nn.Linear(hidden, width, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        if self.gate is not None:
            return self.down(F.silu(self.gate(x)) * self.up(x))
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    """Attention and feed-forward, both added to their input: pre-norm, or post-norm as in BERT.

    `style` is "gpt" (layer norm, GELU, biases), "llama" (RMS norm, SwiGLU, no biases) or "bert" (layer norm behind).
    """

    def __init__(
        self,
        width: int,
        heads: int,
        hidden: int,
        style: str = "gpt",
        groups: int = 0,
        head_width: int = 0,
        cross_width: int = 0,
    ) -> None:
        super().__init__()
        llama = style == "llama"
        norm = nn.RMSNorm if llama else nn.LayerNorm
        self.behind = style == "bert"
        self.first_norm = norm(width)
        self.attention = Attention(width, heads, groups, head_width, bias=not llama)
        self.cross_norm = norm(width) if cross_width else None
        self.cross = Attention(width, heads, context_width=cross_width) if cross_width else None
        self.second_norm = norm(width)
        self.feed_forward = FeedForward(width, hidden, gated=llama, bias=not llama)

    def forward(self, x: Tensor, around: Surroundings = ALONE, cache: Cache | None = None) -> Tensor:
        if self.behind:
            x = self.first_norm(x + self.attention(x, around, cache))
            return self.second_norm(x + self.feed_forward(x))
        x = x + self.attention(self.first_norm(x), around, cache)
        if self.cross is not None and self.cross_norm is not None:
            x = x + self.cross(self.cross_norm(x), context=around.context)
        return x + self.feed_forward(self.second_norm(x))


def repeated(make: Callable[[], nn.Module], count: int, distinct: int) -> nn.ModuleList:
    """So many modules, of which only `distinct` have weights of their own (0: all)."""
    made = [make() for _ in range(min(distinct or count, count))]
    return nn.ModuleList(made[i % len(made)] for i in range(count))


class Stack(nn.Module):
    """`layers` blocks, of which only `distinct` have weights of their own (0: all)."""

    def __init__(self, layers: int, distinct: int, **block: Any) -> None:
        super().__init__()
        self.blocks = repeated(lambda: Block(**block), layers, distinct)

    def forward(self, x: Tensor, around: Surroundings = ALONE, caches: Caches | None = None) -> Tensor:
        for layer, block in enumerate(self.blocks):
            x = block(x, around, caches[layer] if caches else None)
        return x
