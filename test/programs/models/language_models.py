"""One decode step of small GPT-2-style and Llama-style language models, all of whose state is on the device."""

import torch
import torch.nn.functional as F
from torch import nn, Tensor

from models.layers import rotary_tables, Stack, Surroundings


class Cache(nn.Module):
    """Keys and values of all positions so far, each (heads, length, width of a head), written in place by index."""

    keys: Tensor
    values: Tensor

    def __init__(self, heads: int, length: int, width: int) -> None:
        super().__init__()
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(heads, length, width))

    def update(self, position: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Write one position, (heads, 1, width), and return all."""
        self.keys[:, position] = key
        self.values[:, position] = value
        return self.keys, self.values


class Gpt2Block(nn.Module):
    """Layer norm, attention with a fused projection, and a GELU feed-forward layer of four times the width."""

    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.heads = heads
        self.first_norm = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.second_norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.cache = Cache(heads, length, width // heads)

    def forward(self, x: Tensor, position: Tensor, visible: Tensor) -> Tensor:
        parts = self.query_key_value(self.first_norm(x)).view(3, self.heads, 1, -1)
        query, key, value = parts.unbind(0)
        keys, values = self.cache.update(position, key, value)
        attended = F.scaled_dot_product_attention(query[None], keys[None], values[None], attn_mask=visible)
        x = x + self.projection(attended.reshape(1, -1))
        return x + self.down(F.gelu(self.up(self.second_norm(x)), approximate="tanh"))


class LanguageModel(nn.Module):
    """Reads `token` (1,) at `position` (1,), both int64, and replaces them by the next ones.

    With `temperature` above 0 the next token is sampled: the largest of probability over exponential noise.
    """

    token: Tensor
    position: Tensor
    slots: Tensor

    def __init__(self, length: int, words: int, width: int, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature
        self.embedding = nn.Embedding(words, width)
        self.head = nn.Linear(width, words, bias=False)
        self.register_buffer("token", torch.zeros(1, dtype=torch.long))
        self.register_buffer("position", torch.zeros(1, dtype=torch.long))
        self.register_buffer("slots", torch.arange(length))

    def start(self, token: int) -> None:
        """Forget what was decoded, and begin with one token."""
        for name, buffer in self.named_buffers():
            if name.endswith(("keys", "values", "position")):
                buffer.zero_()
        self.token.fill_(token)

    def visible(self) -> Tensor:
        return (self.slots <= self.position)[None, None, None]

    def advance(self, x: Tensor) -> Tensor:
        logits = self.head(x)
        if self.temperature > 0:
            noise = torch.empty_like(logits).exponential_()
            chosen = ((logits / self.temperature).softmax(-1) / noise).argmax(-1)
        else:
            chosen = logits.argmax(-1)
        self.token.copy_(chosen)
        self.position.add_(1)
        return logits


class Gpt2(LanguageModel):
    def __init__(
        self,
        depth: int = 3,
        width: int = 48,
        heads: int = 4,
        length: int = 256,
        words: int = 128,
        temperature: float = 0.0,
    ) -> None:
        super().__init__(length, words, width, temperature)
        self.positions = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Gpt2Block(width, heads, length) for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    def forward(self) -> Tensor:
        x = self.embedding(self.token) + self.positions(self.position)
        visible = self.visible()
        for block in self.blocks:
            x = block(x, self.position, visible)
        return self.advance(self.norm(x))


class Llama(LanguageModel):
    cosine: Tensor
    sine: Tensor

    def __init__(
        self,
        depth: int = 3,
        width: int = 64,
        heads: int = 8,
        groups: int = 2,
        length: int = 256,
        words: int = 128,
        temperature: float = 0.0,
    ) -> None:
        super().__init__(length, words, width, temperature)
        size = width // heads
        for name, table in zip(("cosine", "sine"), rotary_tables(length, size)):
            self.register_buffer(name, table)
        self.caches = nn.ModuleList(Cache(groups, length, size) for _ in range(depth))
        self.stack = Stack(depth, 0, width=width, heads=heads, hidden=2 * width, style="llama", groups=groups)
        self.norm = nn.RMSNorm(width)

    def forward(self) -> Tensor:
        cosine, sine = self.cosine[self.position], self.sine[self.position]
        around = Surroundings(cosine=cosine, sine=sine, position=self.position, mask=self.visible())
        caches = [(cache.keys[None], cache.values[None]) for cache in self.caches]
        x = self.stack(self.embedding(self.token)[None], around, caches)
        return self.advance(self.norm(x[0]))
