"""The models of the demo, with random weights."""

from collections.abc import Sequence
from functools import partial

from models.classifiers import Mlp, ResidualNet, VisionTransformer
from models.language_models import Gpt2
from torch import nn, Tensor

from benchmark.case import Case, inference, Input, new_input

CLASSIFIERS: dict[str, type[nn.Module]] = {"mlp": Mlp, "conv net": ResidualNet, "transformer": VisionTransformer}


def build_classifier(device: str, *, network: str) -> Case:
    return inference(CLASSIFIERS[network](), device, new_input((64, 1, 8, 8), device))


def build_decoder(device: str, *, layers: int) -> Case:
    """One greedy token of a GPT-2-style model that keeps all its state on the device; 64 may follow each other."""
    length = 64
    model = Gpt2(depth=layers, width=128, length=length, words=256).to(device).eval()

    def state() -> Sequence[Tensor]:
        return [buffer for name, buffer in model.named_buffers() if name != "slots"]

    start = partial(model.start, 7)
    return Case(lambda: (model(),), [Input(model.token, below=256)], state, start=start, longest=length)
