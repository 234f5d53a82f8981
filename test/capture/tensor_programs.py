"""Draws small programs of tensor operations, and runs them.

A program is a list of steps, each the name of an operation and two numbers by
which it picks its operands among the inputs and what was made so far. What it
does depends on shapes only, so two runs on equal inputs do the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from hypothesis import strategies as st

SIDE = 4
INPUTS = 3
HOSTS = 2

Step = tuple[str, int, int]


@dataclass
class Data:
    """Tensors that exist before a program runs."""

    inputs: list[torch.Tensor]
    hosts: list[torch.Tensor]

    def update(self, seed: int) -> None:
        """Writes new values into the inputs of the device, in place."""
        generator = torch.Generator().manual_seed(seed)
        for tensor in self.inputs:
            tensor.copy_(torch.rand(tensor.shape, generator=generator) * 2 - 1)


def make_data(hosts: list[torch.Tensor]) -> Data:
    """Returns inputs on the device, all zero, next to the given host tensors."""
    return Data([torch.zeros(SIDE, SIDE, device="mps") for _ in range(INPUTS)], hosts)


def _same_shape(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Returns b if it has the shape of a, else its sum, which fits every shape."""
    return b if a.shape == b.shape else b.sum()


def _gram(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.sin(a @ a.t()) if a.dim() == 2 else torch.sin(a * a)


def _index(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    last = (a.shape[0] - 1) if a.dim() else 0
    return a[torch.tensor([last, 0], device="mps")] if a.dim() else a.clone()


def _cat(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    both = [a, b] if a.dim() and a.shape[1:] == b.shape[1:] and a.dim() == b.dim() else [a.reshape(-1), -a.reshape(-1)]
    return torch.cat(both)[:SIDE]


def _put(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    made = a.reshape(-1).clone()
    return made.index_put_((torch.zeros(1, dtype=torch.long, device="mps"),), b.sum())


def _filled(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    made = torch.empty_like(a)
    made.zero_()
    return made.add_(_same_shape(made, b))


Operation = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

MAKING: dict[str, Operation] = {
    "add": lambda a, b: a + _same_shape(a, b),
    "scale": lambda a, b: a * 0.75 + 0.5,
    "tanh": lambda a, b: a.tanh(),
    "gram": _gram,
    "softmax": lambda a, b: a.softmax(-1) if a.dim() else a.sigmoid(),
    "sum": lambda a, b: torch.sin(a.sum(0, keepdim=True)) if a.dim() else a.neg(),
    "fmax": lambda a, b: torch.fmax(a, _same_shape(a, b) * torch.ones_like(a)),
    "where": lambda a, b: torch.where(a > 0, a, b.sum().sin()),
    "half": lambda a, b: a.half().float(),
    "clone": lambda a, b: a.clone(),
    "index": _index,
    "cat": _cat,
    "put": _put,
    "filled": _filled,
    "triu": lambda a, b: a.triu() if a.dim() == 2 else a.abs(),
}
VIEWS: dict[str, Operation] = {
    "rows": lambda a, b: a[1:] if a.dim() and a.shape[0] > 1 else a.view(a.shape),
    "every_other": lambda a, b: a[..., ::2] if a.dim() else a.view(1),
    "transpose": lambda a, b: a.t() if a.dim() == 2 else a.unsqueeze(0),
    "select": lambda a, b: a.select(0, a.shape[0] - 1) if a.dim() else a,
    "detach": lambda a, b: a.detach(),
}
IN_PLACE: dict[str, Operation] = {
    "add_": lambda a, b: a.add_(_same_shape(a, b).clone().sin()),
    "mul_": lambda a, b: a.mul_(0.5),
    "copy_": lambda a, b: a.copy_(_same_shape(a, b).clone()),
    "zero_": lambda a, b: a.zero_(),
    "fill_": lambda a, b: a.fill_(0.25),
    "neg_": lambda a, b: a.neg_(),
}

steps: st.SearchStrategy[Step] = st.tuples(
    st.sampled_from([*MAKING, *VIEWS, *IN_PLACE, "from_host", "copy_host", "free", "free"]),
    st.integers(0, 15),
    st.integers(0, 15),
)
programs: st.SearchStrategy[list[Step]] = st.lists(steps, min_size=1, max_size=15)

# What a program made, with None where it let go of it.
Made = list[torch.Tensor | None]


def run(program: Sequence[Step], data: Data) -> Made:
    """Runs a program and returns what it made."""
    made: Made = []
    for name, i, j in program:
        alive = [*data.inputs, *(tensor for tensor in made if tensor is not None)]
        a, b = alive[i % len(alive)], alive[j % len(alive)]
        if name == "from_host":
            made.append(data.hosts[i % HOSTS].to("mps"))
        elif name == "copy_host":
            if a.shape == (SIDE, SIDE) and a.is_contiguous():
                a.copy_(data.hosts[j % HOSTS])
        elif name == "free":
            if made:
                made[i % len(made)] = None
        elif name in IN_PLACE:
            IN_PLACE[name](a, b)
        else:
            made.append((MAKING.get(name) or VIEWS[name])(a, b))
        # nothing but `made` may keep alive what the program freed
        del alive, a, b
    return made


def drop(made: Made, numbers: Sequence[int]) -> None:
    """Lets go of some of what a program made."""
    for number in numbers:
        if made:
            made[number % len(made)] = None
