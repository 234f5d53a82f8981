"""The decode step of a small decoder-only language model: many tiny kernels, the case that capture is for."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn, Tensor


class DecoderLayer(nn.Module):
    """One layer with its own key-value cache, written in place at the position of the token."""

    keys: Tensor
    values: Tensor

    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(length, heads, width // heads))

    def forward(self, x: Tensor, position: Tensor, hidden: Tensor) -> Tensor:
        width = x.shape[-1]
        parts = self.query_key_value(self.attention_norm(x)).view(3, self.heads, -1)
        query, key, value = parts.unbind(0)
        self.keys.index_put_((position,), key.unsqueeze(0))
        self.values.index_put_((position,), value.unsqueeze(0))
        scores = query.unsqueeze(1) @ self.keys.permute(1, 2, 0) * (width // self.heads) ** -0.5
        weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        x = x + self.projection((weights @ self.values.transpose(0, 1)).view(1, width))
        return x + self.down(F.gelu(self.up(self.feed_forward_norm(x))))


class DecodeStep(nn.Module):
    """One greedy decode step, with all of its state on the device.

    ``token`` (1,) and ``position`` (1,), both int64, are read and then advanced in place, so a
    replay of the captured step decodes the next token.
    """

    token: Tensor
    position: Tensor
    slots: Tensor

    def __init__(self, depth: int = 64, width: int = 128, heads: int = 4, length: int = 64, words: int = 256) -> None:
        super().__init__()
        self.length = length
        self.embedding = nn.Embedding(words, width)
        self.positions = nn.Embedding(length, width)
        self.layers = nn.ModuleList(DecoderLayer(width, heads, length) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        self.register_buffer("token", torch.zeros(1, dtype=torch.long))
        self.register_buffer("position", torch.zeros(1, dtype=torch.long))
        self.register_buffer("slots", torch.arange(length))

    def start(self, token: int) -> None:
        """Forget everything, and begin with one token."""
        for name, buffer in self.named_buffers():
            if not name.endswith("slots"):
                buffer.zero_()
        self.token.fill_(token)

    def forward(self) -> Tensor:
        x = self.embedding(self.token) + self.positions(self.position)
        hidden = self.slots > self.position
        for layer in self.layers:
            x = layer(x, self.position, hidden)
        logits = self.head(self.norm(x))
        self.token.copy_(logits.argmax(-1))
        self.position.add_(1)
        return logits
