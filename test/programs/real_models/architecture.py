"""What is known of one architecture: how to build it small, and what it is given."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

Inputs = dict[str, Any]


@dataclass(frozen=True)
class Architecture:
    """A model with random weights, and inputs by the names of its arguments.

    `help` is the line that lets a capture take it as it is, where it is refused without. With `fallback`, operators that
    have no kernel run on the CPU: eager does not run it otherwise.
    """

    name: str
    kind: str
    make: Callable[[], torch.nn.Module]
    inputs: Callable[[torch.Generator], Inputs]
    help: str = ""
    fallback: bool = False


def tokens(*shape: int, words: int = 99, name: str = "input_ids") -> Callable[[torch.Generator], Inputs]:
    """Numbers of words, none of them a special one."""
    return lambda generator: {name: torch.randint(5, words, shape, generator=generator)}


def normal(*shape: int, name: str) -> Callable[[torch.Generator], Inputs]:
    return lambda generator: {name: torch.randn(shape, generator=generator)}


def together(*parts: Callable[[torch.Generator], Inputs]) -> Callable[[torch.Generator], Inputs]:
    """The inputs of several."""

    def all_of(generator: torch.Generator) -> Inputs:
        return {name: value for part in parts for name, value in part(generator).items()}

    return all_of


def constant(**values: Any) -> Callable[[torch.Generator], Inputs]:
    """The same each time; tensors are new ones."""
    return lambda _generator: {
        name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in values.items()
    }


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """All tensors of what a model gives."""
    for leaf in torch.utils._pytree.tree_leaves(value):
        if isinstance(leaf, torch.Tensor):
            yield leaf
