"""Language models: a prefill of many tokens, or one step of decoding with a cache."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn, Tensor

from benchmark.case import Case, new_input
from benchmark.families.layers import rotary_tables, Stack, Surroundings


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
        hidden: int,
        groups: int,
        head_width: int,
        length: int,
        distinct: int,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.positions = nn.Embedding(length, width) if style == "gpt" else None
        self.stack = Stack(
            layers,
            distinct,
            width=width,
            heads=heads,
            hidden=hidden,
            style=style,
            groups=groups,
            head_width=head_width,
        )
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

    def decode(self, token: Tensor, position: Tensor, caches: list[tuple[Tensor, Tensor]]) -> Tensor:
        x = self.embedding(token)
        around = Surroundings(position=position, mask=(self.slots <= position)[None, None, None])
        if self.positions is not None:
            x = x + self.positions(position)
        else:
            around.cosine, around.sine = self.cosine[position], self.sine[position]
        return self.logits(self.stack(x, around, caches))


def build(
    device: str,
    dtype: torch.dtype,
    *,
    style: str,
    width: int,
    layers: int,
    heads: int,
    words: int,
    hidden: int = 0,
    groups: int = 0,
    head_width: int = 0,
    batch: int = 1,
    tokens: int = 0,
    length: int = 128,
    distinct: int = 0,
) -> Case:
    """Prefill of `tokens`, or with 0 of them one step of decoding with a cache of `length`."""
    model = LanguageModel(
        style,
        width,
        layers,
        heads,
        words,
        hidden or 4 * width,
        groups or heads,
        head_width,
        max(length, tokens),
        distinct,
    )
    model = model.to(device, dtype).eval()
    if tokens:
        prompt = new_input((batch, tokens), device, below=words)
        return Case(lambda: (model(prompt.tensor),), [prompt])

    token, position = new_input((batch, 1), device, below=words), new_input((1,), device, below=length)
    shape = (batch, groups or heads, length, head_width or width // heads)
    caches = [tuple(torch.zeros(shape, dtype=dtype, device=device) for _ in range(2)) for _ in range(layers)]

    def state() -> Sequence[Tensor]:
        return [part for cache in caches for part in cache]

    return Case(
        lambda: (model.decode(token.tensor, position.tensor, caches),),  # type: ignore[arg-type]
        [token, position],
        state,
    )
