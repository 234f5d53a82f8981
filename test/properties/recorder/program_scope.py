"""What the steps of a program work on, and what each step does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from tensor_operations import (
    draw_values,
    DRAWS,
    DRAWS_IN_PLACE,
    DTYPES,
    fit,
    IN_PLACE,
    MAKING,
    SIDE,
    total,
    VIEWS,
)
from torch import mps, Tensor

Result = TypeVar("Result")


class Tape:
    """Results of what a block does only once, however often it is replayed.

    Reads by the host are of that kind: a replay behaves as if it had read the
    same values again.
    """

    def __init__(self, results: list[Any] | None = None) -> None:
        self.replays = results is not None
        self._results = list(results or [])
        self._next = 0

    def again(self) -> Tape:
        return Tape(self._results)

    def once(self, action: Callable[[], Result]) -> Result:
        if not self.replays:
            self._results.append(action())
        self._next += 1
        return self._results[self._next - 1]


def _make_slots() -> list[Tensor | None]:
    kinds = [
        ((SIDE, SIDE), torch.float32),
        ((SIDE,), torch.float32),
        ((SIDE, SIDE), torch.float16),
        ((SIDE, SIDE), torch.int64),
        ((SIDE, SIDE), torch.bool),
        ((SIDE,), torch.int64),
        ((), torch.float32),
        ((0, SIDE), torch.float32),
    ]
    return [draw_values(torch.Size(shape), dtype, i).to("mps") for i, (shape, dtype) in enumerate(kinds)]


def _make_hosts() -> list[Tensor]:
    square = torch.Size((SIDE, SIDE))
    dtypes = (torch.float32, torch.float16, torch.float64, torch.int64, torch.bool)
    return [
        *(torch.zeros(square, dtype=dtype) for dtype in dtypes),
        torch.zeros(SIDE),
        torch.zeros(()),
        torch.zeros(0, SIDE),
        torch.zeros(square).t(),
        torch.zeros(SIDE, SIDE * 2)[:, ::2],
        torch.zeros(SIDE * SIDE + 1)[1:].view(square),
    ]


def _make_parameter() -> Tensor:
    parameter = draw_values(torch.Size((SIDE, SIDE)), torch.float32, 9).to("mps").requires_grad_()
    parameter.grad = torch.zeros_like(parameter)
    return parameter


@dataclass
class Scope:
    """The names that steps know. A block shares them with what is around it."""

    # tensors on the device, None where a program let go of one
    slots: list[Tensor | None] = field(default_factory=_make_slots)
    hosts: list[Tensor] = field(default_factory=_make_hosts)
    parameter: Tensor = field(default_factory=_make_parameter)
    generator: torch.Generator = field(default_factory=lambda: torch.Generator("mps").manual_seed(1))
    tape: Tape = field(default_factory=Tape)
    # whether the host may read what is on the device
    reads: bool = True

    def random_states(self) -> dict[str, Tensor]:
        """Returns the states of the generators, which are on the host."""
        return {"default generator": mps.get_rng_state(), "own generator": self.generator.get_state()}

    def visible(self) -> dict[str, Tensor]:
        """Returns copies of all that a program can see, on the CPU."""
        return {
            **{f"slot {i}": tensor.cpu() for i, tensor in enumerate(self.slots) if tensor is not None},
            "parameter": self.parameter.detach().cpu(),
            "gradient": self.parameter.grad.cpu(),
            **self.random_states(),
        }

    def update_hosts(self, seed: int) -> None:
        """Writes new values into the tensors of the host."""
        for number, host in enumerate(self.hosts):
            host.copy_(draw_values(host.shape, host.dtype, seed + number))


def _from_host(scope: Scope, i: int, j: int) -> Tensor:
    dtype = [None, *DTYPES][j % (len(DTYPES) + 1)]
    host = scope.hosts[i % len(scope.hosts)]
    return host.to("mps", torch.float32 if dtype is None and host.dtype == torch.float64 else dtype)


def _copy_host(scope: Scope, a: Tensor, _b: Tensor, j: int) -> None:
    host = scope.hosts[j % len(scope.hosts)]
    if a.shape == host.shape or (host.dim() == 0 and a.numel() > 0):
        a.copy_(host)


def _load(_scope: Scope, a: Tensor, _b: Tensor, j: int) -> None:
    a.copy_(draw_values(a.shape, a.dtype, j))


def _backward(scope: Scope, a: Tensor, _b: Tensor, _j: int) -> None:
    """Adds to the parameter's gradient, from autograd's thread."""
    loss = (scope.parameter * fit(scope.parameter.detach(), a)).sin().sum()
    torch.autograd.backward([loss])


def _descend(scope: Scope, _a: Tensor, _b: Tensor, _j: int) -> None:
    gradient = scope.parameter.grad
    with torch.no_grad():
        scope.parameter.sub_(gradient.sin(), alpha=0.1)
    gradient.zero_()


# What gives a tensor adds it to the slots.
READING: dict[str, Callable[[Scope, Tensor, Tensor, int], Tensor]] = {
    "item": lambda scope, a, b, j: a.float() * scope.tape.once(lambda: total(b).item()),
    "cpu": lambda scope, a, b, j: scope.tape.once(a.cpu).to("mps").clone(),
}
OTHER: dict[str, Callable[[Scope, Tensor, Tensor, int], Tensor | None]] = {
    "copy_host": _copy_host,
    # The block makes a number on the CPU, which is the same in each replay.
    "host_number": lambda scope, a, b, j: a.float() * torch.tensor(3.0),
    "load": _load,
    "backward": _backward,
    "descend": _descend,
}


def run_step(scope: Scope, name: str, i: int, j: int) -> None:
    """Runs a step that does something to tensors."""
    alive = [tensor for tensor in scope.slots if tensor is not None]
    if name == "free":
        if scope.slots:
            scope.slots[i % len(scope.slots)] = None
        return
    if name == "from_host":
        scope.slots.append(_from_host(scope, i, j))
        return
    if not alive:
        return
    a, b = alive[i % len(alive)], alive[j % len(alive)]
    generator = scope.generator if j % 2 else None
    if name in MAKING or name in VIEWS:
        scope.slots.append((MAKING.get(name) or VIEWS[name])(a, b))
    elif name in IN_PLACE:
        IN_PLACE[name](a, b)
    elif name in DRAWS:
        scope.slots.append(DRAWS[name](a, generator))
    elif name in DRAWS_IN_PLACE:
        DRAWS_IN_PLACE[name](a, generator)
    elif name not in READING or scope.reads:
        made = {**READING, **OTHER}[name](scope, a, b, j)
        scope.slots += [] if made is None else [made]
