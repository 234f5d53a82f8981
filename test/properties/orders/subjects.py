"""The modules and functions that programs use, small and of few operators."""

import copy
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

DEVICE = "mps"
Target = nn.Module | Callable[[torch.Tensor], Any]


class Norm(nn.Module):
    """Has running statistics and draws random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dropout(self.norm(self.linear(x)))


class TwoHeads(nn.Module):
    """A loss may use one head only."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.first = nn.Linear(4, 2)
        self.second = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.body(x).relu()
        return self.first(hidden), self.second(hidden)


class Convolution(nn.Module):
    """Reads each row as an image of 2 by 2."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(1, 3, 2)
        self.linear = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(self.convolution(x.view(-1, 1, 2, 2)).relu().flatten(1))


class Stack(nn.Module):
    """Saves its second weight for the backward pass, whatever its input."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.second = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.norm(self.first(x)))


def temporaries(x: torch.Tensor) -> torch.Tensor:
    """Has several temporaries of one size, which share the memory of a pool."""
    a = x * 2
    b = a * x
    c = b * a
    return c * b


def aliases(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns one memory twice."""
    y = x * x
    return y, y.view(-1)


def writes(x: torch.Tensor) -> torch.Tensor:
    x.mul_(2)
    return x * x


MODULES: dict[str, type[nn.Module]] = {
    "stack": Stack,
    "norm": Norm,
    "two_heads": TwoHeads,
    "convolution": Convolution,
}
FUNCTIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "temporaries": temporaries,
    "aliases": aliases,
    "writes": writes,
}
# The first are what shrinking leads to.
KINDS = ("stack", "temporaries", "norm", "two_heads", "convolution", "aliases", "writes")


def numbers(shape: torch.Size | tuple[int, ...], start: int) -> torch.Tensor:
    """Small multiples of 1/8, whose sums and products are exact."""
    count = torch.Size(shape).numel()
    values = (torch.arange(count) * 5 + start * 3) % 11 - 5
    return (values / 8).reshape(shape)


@functools.cache
def _on_device(shape: tuple[int, ...], start: int) -> torch.Tensor:
    return numbers(shape, start).to(DEVICE)


def device_numbers(shape: tuple[int, ...], start: int) -> torch.Tensor:
    """A new tensor of such numbers."""
    return _on_device(shape, start).clone()


@functools.cache
def _template(kind: str) -> nn.Module:
    module = MODULES[kind]()
    with torch.no_grad():
        for i, parameter in enumerate(module.parameters()):
            parameter.copy_(numbers(parameter.shape, i))
    return module.to(DEVICE)


def make(kind: str) -> Target:
    """A new module with the kind's first values, or the function."""
    return copy.deepcopy(_template(kind)) if kind in MODULES else FUNCTIONS[kind]


def draws(target: Target) -> bool:
    """Whether a call depends on calls before it: by random numbers, or by running statistics."""
    return isinstance(target, nn.Module) and any(
        module.training and isinstance(module, (nn.Dropout, nn.BatchNorm1d)) for module in target.modules()
    )
