"""What state programs capture: small blocks, and the state that they read."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from subjects import DEVICE, device_numbers, numbers
from torch import nn

# A square, so that many blocks also run on what a change of metadata makes of a tensor.
SHAPE = (4, 4)
BATCHES = 3


def batches(start: int) -> torch.Tensor:
    """Several tensors in one storage, of which a program uses the first."""
    return device_numbers((BATCHES, *SHAPE), start)


class Box(nn.Module):
    """All that blocks read. A host tensor and a number may be backed by numpy."""

    def __init__(self, kind: str, variant: int) -> None:
        super().__init__()
        self.kind, self.variant = kind, variant
        self.linear = nn.Linear(4, 4, device=DEVICE)
        self.linear.weight = nn.Parameter(batches(0)[0])
        self.linear.bias = nn.Parameter(device_numbers((4,), 1))
        self.weight = nn.Parameter(batches(2)[0])
        self.norm = nn.BatchNorm1d(4, device=DEVICE)
        self.register_buffer("cache", batches(3)[0])
        self.register_buffer("landing", batches(4)[0])
        # in range whatever a change of x leaves of its rows: the device does not check indices
        self.register_buffer("rows", torch.tensor([0, 0], device=DEVICE))
        self.register_buffer("base", batches(5))
        self.register_buffer("part", self.base[0])
        host, number = numbers(SHAPE, 6), torch.tensor(2.0)
        arrays = (host.numpy().copy(), number.numpy().copy()) if variant % 2 else None
        if arrays:
            host, number = map(torch.from_numpy, arrays)
        self.__dict__.update(host=host, number=number, arrays=arrays, generator=None)

    def forward(self, x: torch.Tensor) -> Any:
        return BLOCKS[self.kind](self, x)


def linear(box: Box, x: torch.Tensor) -> Any:
    return box.linear(x)


def direct(box: Box, x: torch.Tensor) -> Any:
    """Uses a weight and a view of a base directly, and something of the device's default dtype."""
    return x @ box.weight + box.part * 2, torch.full((4,), 0.5, device=DEVICE)


def cache(box: Box, x: torch.Tensor) -> Any:
    box.cache[1:3].add_(x[:2])
    return box.cache * 2


def host(box: Box, x: torch.Tensor) -> Any:
    if box.variant >= 4:
        return x * box.host.to(DEVICE)
    box.landing.copy_(box.host)
    return x + box.landing


NUMBERS: tuple[Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor], ...] = (
    lambda x, s, rows: x * s,
    lambda x, s, rows: x.clone().add_(s),
    lambda x, s, rows: torch.empty_like(x).fill_(s),
    lambda x, s, rows: x.masked_fill(x > 0, s),
    lambda x, s, rows: torch.where(x > 0, x, s),
    lambda x, s, rows: x.clone().index_put_((rows,), s),
    lambda x, s, rows: torch.select_scatter(x, s.to(DEVICE).expand(4), 0, 0),
    lambda x, s, rows: torch.addcmul(x, x, x, value=s),  # type: ignore[call-overload]
)


def number(box: Box, x: torch.Tensor) -> Any:
    return NUMBERS[box.variant](x, box.number, box.rows)


def norm(box: Box, x: torch.Tensor) -> Any:
    # its input needs gradients: without, upstream's BatchNorm leaves some uninitialized
    return box.norm(box.linear(x)) * box.weight


def draws(box: Box, x: torch.Tensor) -> Any:
    y = F.dropout(x @ box.weight, 0.5)
    return y + torch.rand(SHAPE, device=DEVICE, generator=box.generator) if box.generator else y


def sdpa(box: Box, x: torch.Tensor) -> Any:
    q = x.view(1, 1, *x.shape)
    return F.scaled_dot_product_attention(q, q @ box.weight.detach(), q)


BLOCKS: dict[str, Callable[[Box, torch.Tensor], Any]] = {
    f.__name__: f for f in (linear, direct, cache, host, number, norm, draws, sdpa)
}
TRAINED = ("sgd", "adam", "counter")


class Counter(torch.optim.Optimizer):
    """Reads another key of its group, and may divide by a count that begins in its first step."""

    def __init__(self, parameters: Sequence[nn.Parameter], counts: bool) -> None:
        super().__init__(parameters, {"lr": 0.25, "scale": 1.0})
        self.counts = counts

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                alpha = -group["lr"] * group["scale"]
                if self.counts:
                    state = self.state[parameter]
                    state["step"] = state.get("step", 0) + 1
                    alpha /= state["step"]
                parameter.add_(parameter.grad, alpha=alpha)


def optimizer_of(kind: str, variant: int, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    """With numbers in its groups, or with lr in a tensor."""
    if kind == "counter":
        return Counter(parameters, counts=variant % 4 == 0)
    # SGD reads it as a number
    lr: Any = torch.tensor(0.25, device="cpu" if kind == "sgd" else DEVICE) if variant % 2 else 0.25
    if kind == "sgd":
        return torch.optim.SGD(parameters, lr=lr, momentum=0.5, weight_decay=0.125)
    return torch.optim.AdamW(parameters, lr=lr, capturable=True)
