"""One decode step of a small GPT-2-style language model, all of whose state is on the device."""

import torch
import torch.nn.functional as F
from torch import nn, Tensor


class Gpt2Block(nn.Module):
    """Layer norm, attention with a fused projection, and a GELU feed-forward layer of four times the width.

    Keys and values of all positions so far, each (heads, length, width of a head), are written in place by index.
    """

    keys: Tensor
    values: Tensor

    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.heads = heads
        self.first_norm = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.second_norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(heads, length, width // heads))

    def forward(self, x: Tensor, position: Tensor, visible: Tensor) -> Tensor:
        parts = self.query_key_value(self.first_norm(x)).view(3, self.heads, 1, -1)
        query, key, value = parts.unbind(0)
        self.keys[:, position] = key
        self.values[:, position] = value
        attended = F.scaled_dot_product_attention(query[None], self.keys[None], self.values[None], attn_mask=visible)
        x = x + self.projection(attended.reshape(1, -1))
        return x + self.down(F.gelu(self.up(self.second_norm(x)), approximate="tanh"))


class Gpt2(nn.Module):
    """Reads `token` (1,) at `position` (1,), both int64, and replaces them by the next ones."""

    token: Tensor
    position: Tensor
    slots: Tensor

    def __init__(self, depth: int = 3, width: int = 48, heads: int = 4, length: int = 256, words: int = 128) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.head = nn.Linear(width, words, bias=False)
        self.register_buffer("token", torch.zeros(1, dtype=torch.long))
        self.register_buffer("position", torch.zeros(1, dtype=torch.long))
        self.register_buffer("slots", torch.arange(length))
        self.positions = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Gpt2Block(width, heads, length) for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    def start(self, token: int) -> None:
        """Forget what was decoded, and begin with one token."""
        for name, buffer in self.named_buffers():
            if name.endswith(("keys", "values", "position")):
                buffer.zero_()
        self.token.fill_(token)

    def forward(self) -> Tensor:
        x = self.embedding(self.token) + self.positions(self.position)
        visible = (self.slots <= self.position)[None, None, None]
        for block in self.blocks:
            x = block(x, self.position, visible)
        logits = self.head(self.norm(x))
        self.token.copy_(logits.argmax(-1))
        self.position.add_(1)
        return logits
