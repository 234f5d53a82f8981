"""What the demo captures, and what it feeds to eager and to the replays."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from models.classifiers import Mlp, ResidualNet, VisionTransformer
from models.digits import batches, images_and_labels, train
from models.language_models import Gpt2
from torch import nn, Tensor


@dataclass
class Case:
    """One model: `step` is captured; `rounds` prepares the input of one pass after the other, in place, and yields how
    many rows of the result count."""

    name: str
    data: str
    step: Callable[[], Tensor]
    prepare: Callable[[], None]
    rounds: Callable[[], Iterator[int]]
    accuracy: float | None = None


def classifier_case(name: str, model: nn.Module, epochs: int, small: bool) -> Case:
    """A classifier trained on the CPU; captured on the first batch, replayed on the others."""
    images, labels = images_and_labels()
    half = len(images) // 2
    train(model, images[:half], labels[:half], epochs)
    with torch.no_grad():
        right = model(images[half:]).argmax(-1) == labels[half:]
    device_model = model.to("mps")
    size = 256 if small else 64
    inputs = batches(images, size)
    x = torch.empty(size, 1, 8, 8, device="mps")

    def prepare() -> None:
        x.copy_(inputs[0][0])

    def rounds() -> Iterator[int]:
        for batch, count in inputs[1:]:
            x.copy_(batch)
            yield count

    return Case(
        name,
        f"{len(images):,} digits, batches of {size}",
        lambda: device_model(x),
        prepare,
        rounds,
        right.float().mean().item(),
    )


def decoder_case(small: bool) -> Case:
    """A GPT-2-style decode step with random weights: captured on token 0, replayed on sequences that begin with others."""
    depth, tokens, starts = (4, 6, 2) if small else (64, 24, 3)
    model = Gpt2(depth=depth, width=128, length=64, words=256).to("mps").eval()

    def rounds() -> Iterator[int]:
        for start in range(1, starts + 1):
            model.start(start * 37 % 256)
            for _ in range(tokens):
                yield 1

    return Case(
        f"GPT-2-style decoder, {depth} layers",
        f"{starts} sequences of {tokens} tokens",
        model,
        lambda: model.start(0),
        rounds,
    )


def all_cases(small: bool) -> Iterator[Case]:
    """The demo's cases, made one at a time."""
    torch.manual_seed(0)
    yield classifier_case("MLP", Mlp(), 4, small)
    yield classifier_case("residual conv net", ResidualNet(), 8, small)
    yield classifier_case("vision transformer", VisionTransformer(), 30, small)
    yield decoder_case(small)
