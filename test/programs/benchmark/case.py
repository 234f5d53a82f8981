"""What a configuration builds, a step with the tensors that go in and stay, and what a capture of it is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import nn, Tensor

Outputs = tuple[Tensor, ...]


@dataclass(frozen=True)
class Input:
    """A tensor that the step reads: normal numbers, or integers from 0 to `below` if that is given."""

    tensor: Tensor
    below: int = 0

    def write(self, generator: torch.Generator) -> None:
        """Give it new content in place."""
        shape = self.tensor.shape
        if self.below:
            new = torch.randint(self.below, shape, generator=generator)
        else:
            new = torch.randn(shape, generator=generator)
        self.tensor.copy_(new.to(self.tensor.dtype))


@dataclass
class Case:
    """One configuration on the device.

    `step` runs it once and returns its results. `state` names the tensors that a step changes in place and that it, or a
    later one, reads: caches, weights in training, states of optimizers. `start` brings back a state from which
    `longest` steps may follow.
    """

    step: Callable[[], Outputs]
    inputs: list[Input] = field(default_factory=list)
    state: Callable[[], Sequence[Tensor]] = lambda: ()
    training: bool = False
    start: Callable[[], None] | None = None
    longest: int = 1_000

    def fill(self, seed: int) -> None:
        """Give all inputs new content, the same for the same seed."""
        generator = torch.Generator().manual_seed(seed)
        for one in self.inputs:
            one.write(generator)


def new_input(shape: Sequence[int], device: str, below: int = 0) -> Input:
    """An input of zeros on the device: int64 if `below` is given, else float32."""
    return Input(torch.zeros(tuple(shape), dtype=torch.int64 if below else torch.float32, device=device), below)


def inference(model: nn.Module, device: str, *inputs: Input) -> Case:
    """A pass of the model on its inputs."""
    model = model.to(device).eval()
    tensors = [one.tensor for one in inputs]
    return Case(lambda: (model(*tensors),), list(inputs))


@dataclass
class Replay:
    """A captured step: `run` replays it, `outputs` are the tensors it writes, `steps` counts what it holds by kind.

    `wait_until_ready` is called before each replay that is timed.
    """

    run: Callable[[], object]
    outputs: Outputs
    steps: dict[str, int] = field(default_factory=dict)
    wait_until_ready: Callable[[], None] | None = None


class NotRun(Exception):
    """Why a mode is not there."""
