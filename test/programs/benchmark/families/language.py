"""Language models: a prefill of many tokens, or one step of decoding with a cache."""

from functools import partial
from typing import Any

import torch
from models.layers import Caches, new_caches, rotary_tables, Stack, Surroundings
from torch import nn, Tensor

from benchmark.case import Case, inference, new_input


class LanguageModel(nn.Module):
    """GPT-2-style or Llama-style. Maps (batch, tokens) int64 to logits of the last token, (batch, words).

    With a cache of `length` positions it decodes one token, at `position`.
    """

    slots: Tensor
    cosine: Tensor
    sine: Tensor

    def __init__(
        self,
        style: str,
        width: int,
        layers: int,
        heads: int,
        words: int,
        length: int,
        distinct: int = 0,
        hidden: int = 0,
        groups: int = 0,
        head_width: int = 0,
        cross_width: int = 0,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.positions = nn.Embedding(length, width) if style == "gpt" else None
        block = {"style": style, "groups": groups or heads, "head_width": head_width, "hidden": hidden or 4 * width}
        self.stack = Stack(layers, distinct, width=width, heads=heads, cross_width=cross_width, **block)
        self.norm = nn.LayerNorm(width) if style == "gpt" else nn.RMSNorm(width)
        cosine, sine = rotary_tables(length, head_width or width // heads)
        for name, table in (("slots", torch.arange(length)), ("cosine", cosine), ("sine", sine)):
            self.register_buffer(name, table)

    def logits(self, x: Tensor) -> Tensor:
        return self.norm(x[:, -1]) @ self.embedding.weight.t()

    def forward(self, tokens: Tensor) -> Tensor:
        count = tokens.shape[1]
        x = self.embedding(tokens)
        around = Surroundings(causal=True)
        if self.positions is not None:
            x = x + self.positions(self.slots[:count])
        else:
            around.cosine, around.sine = self.cosine[:count], self.sine[:count]
        return self.logits(self.stack(x, around))

    def decode(self, token: Tensor, position: Tensor, caches: Caches, context: Tensor | None = None) -> Tensor:
        x = self.embedding(token)
        around = Surroundings(position=position, mask=(self.slots <= position)[None, None, None], context=context)
        if self.positions is not None:
            x = x + self.positions(position)
        else:
            around.cosine, around.sine = self.cosine[position], self.sine[position]
        return self.logits(self.stack(x, around, caches))


def build(
    device: str,
    *,
    width: int,
    layers: int,
    heads: int,
    words: int,
    batch: int = 1,
    tokens: int = 0,
    length: int = 128,
    **others: Any,
) -> Case:
    """Prefill of `tokens`, or with 0 of them one step of decoding with a cache of `length`."""
    model = LanguageModel(width=width, layers=layers, heads=heads, words=words, length=max(length, tokens), **others)
    if tokens:
        return inference(model, device, new_input((batch, tokens), device, below=words))
    model = model.to(device).eval()
    token, position = new_input((batch, 1), device, below=words), new_input((1,), device, below=length)
    shape = (batch, others.get("groups") or heads, length, others.get("head_width") or width // heads)
    caches, state = new_caches(layers, shape, device)
    return Case(lambda: (model.decode(token.tensor, position.tensor, caches),), [token, position], state)


build_gpt, build_llama = (partial(build, style=style) for style in ("gpt", "llama"))
