"""The models of the demo, with random weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from models.classifiers import Mlp, ResidualNet, VisionTransformer
from models.language_models import Gpt2
from torch import nn, Tensor

from benchmark.case import Case, Input, new_input

CLASSIFIERS: dict[str, type[nn.Module]] = {"mlp": Mlp, "conv net": ResidualNet, "transformer": VisionTransformer}


def build_classifier(device: str, dtype: torch.dtype, *, network: str, batch: int = 64) -> Case:
    """Classifies `batch` images of 8×8."""
    model = CLASSIFIERS[network]().to(device, dtype).eval()
    images = new_input((batch, 1, 8, 8), device, dtype=dtype)
    return Case(lambda: (model(images.tensor),), [images])


def build_decoder(device: str, dtype: torch.dtype, *, layers: int) -> Case:
    """One greedy token of a GPT-2-style model that keeps all its state on the device; 64 may follow each other."""
    length = 64
    model = Gpt2(depth=layers, width=128, length=length, words=256).to(device, dtype).eval()

    def start() -> None:
        model.start(7)

    def state() -> Sequence[Tensor]:
        return [buffer for name, buffer in model.named_buffers() if name != "slots"]

    def step() -> tuple[Tensor]:
        return (model(),)

    return Case(step, [Input(model.token, below=256)], state, start=start, longest=length)
