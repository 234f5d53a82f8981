"""Training steps, and optimizers by themselves."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn, Tensor

from benchmark.case import Case, Input, new_input
from benchmark.families.diffusion import UNet
from benchmark.families.encoders import SentenceEncoder
from benchmark.families.language import LanguageModel
from benchmark.families.vision import NETWORKS


def make_optimizer(name: str, parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
    """An optimizer that keeps its count of steps on the device, so that it can be captured."""
    makers: dict[str, Callable[[], torch.optim.Optimizer]] = {
        "sgd": lambda: torch.optim.SGD(parameters, lr=1e-3),
        "sgd-momentum": lambda: torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, weight_decay=1e-4),
        "adam": lambda: torch.optim.Adam(parameters, lr=1e-3, capturable=True),
        "adamw": lambda: torch.optim.AdamW(parameters, lr=1e-3, capturable=True),
        "nadam": lambda: torch.optim.NAdam(parameters, lr=1e-3, capturable=True),
        "rmsprop": lambda: torch.optim.RMSprop(parameters, lr=1e-3, capturable=True),
    }
    return makers[name]()


def _states(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor)]


def _training(model: nn.Module, optimizer: str, inputs: list[Input], loss: Callable[[], Tensor]) -> Case:
    model.train()
    used = make_optimizer(optimizer, model.parameters())

    def step() -> tuple[Tensor]:
        used.zero_grad(set_to_none=True)
        result = loss()
        result.backward()  # type: ignore[no-untyped-call]
        used.step()
        return (result.detach(),)

    def state() -> Sequence[Tensor]:
        return [*(p.detach() for p in model.parameters()), *model.buffers(), *_states(used)]

    return Case(step, inputs, state, training=True)


def build_classifier(device: str, *, network: str, optimizer: str, batch: int, size: int = 32) -> Case:
    model = NETWORKS[network](size).to(device)
    images, labels = new_input((batch, 3, size, size), device), new_input((batch,), device, below=1000)
    return _training(model, optimizer, [images, labels], lambda: F.cross_entropy(model(images.tensor), labels.tensor))


def build_mlp(device: str, *, layers: int, width: int, optimizer: str, batch: int) -> Case:
    """A step of `layers` linear layers with ReLU."""
    parts = [part for _ in range(layers) for part in (nn.Linear(width, width), nn.ReLU())]
    model = nn.Sequential(*parts, nn.Linear(width, 10)).to(device)
    x, labels = new_input((batch, width), device), new_input((batch,), device, below=10)
    return _training(model, optimizer, [x, labels], lambda: F.cross_entropy(model(x.tensor), labels.tensor))


def build_language(device: str, *, words: int, tokens: int, optimizer: str, batch: int, **sizes: Any) -> Case:
    """A step of a language model that learns the token after each prompt."""
    model = LanguageModel(words=words, length=tokens, **sizes).to(device)
    prompt, following = new_input((batch, tokens), device, below=words), new_input((batch,), device, below=words)
    return _training(
        model, optimizer, [prompt, following], lambda: F.cross_entropy(model(prompt.tensor), following.tensor)
    )


def build_sentence(device: str, *, words: int, tokens: int, optimizer: str, batch: int, **sizes: int) -> Case:
    """A step of contrastive training: the sentences of a batch are told from each other."""
    model = SentenceEncoder(words=words, tokens=tokens, **sizes).to(device)
    first, second = (new_input((batch, tokens), device, below=words) for _ in range(2))
    targets = torch.arange(batch, device=device)

    def loss() -> Tensor:
        return F.cross_entropy(model(first.tensor) @ model(second.tensor).t() * 20, targets)

    return _training(model, optimizer, [first, second], loss)


def build_denoiser(device: str, *, width: int, optimizer: str, batch: int) -> Case:
    model = UNet(3, width, 64, levels=(1, 2), blocks=1, heads=4, attention=(1,)).to(device)
    x, noise = (new_input((batch, 3, 16, 16), device) for _ in range(2))
    time, text = new_input((batch,), device), new_input((batch, 8, 64), device)
    return _training(
        model,
        optimizer,
        [x, noise, time, text],
        lambda: F.mse_loss(model(x.tensor, time.tensor, text.tensor), noise.tensor),
    )


def build_optimizer(device: str, *, optimizer: str, parameters: int) -> Case:
    """`optimizer` alone, over many small parameters with new gradients."""
    weights = [torch.randn(256).to(device).requires_grad_() for _ in range(parameters)]
    gradients = new_input((parameters, 256), device)
    for weight, gradient in zip(weights, gradients.tensor):
        weight.grad = gradient
    used = make_optimizer(optimizer, weights)

    def step() -> tuple[Tensor]:
        used.step()
        return ()  # type: ignore[return-value]

    def state() -> Sequence[Tensor]:
        return [*(weight.detach() for weight in weights), *_states(used)]

    return Case(step, [gradients], state)
