"""Operations on tensors that work for any operands.

Each takes two tensors of any shape and of the dtypes below, empty and 0-dim
ones included. What it does depends on shapes and dtypes only, so two runs on
equal operands do the same. Values stay small, whatever is done how often.
"""

import random
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

SIDE = 4
LARGE = 520
DTYPES = (torch.float32, torch.float16, torch.int64, torch.bool)

Operation = Callable[[Tensor, Tensor], Tensor]
Draw = Callable[[Tensor, torch.Generator | None], Tensor]


def draw_values(shape: torch.Size, dtype: torch.dtype, seed: int) -> Tensor:
    """Returns values on the CPU, numbers of the program: a capture refuses draws of the CPU."""
    numbers = random.Random(seed)
    values = torch.tensor([numbers.uniform(-4, 4) for _ in range(shape.numel())]).reshape(shape)
    return values > 0 if dtype == torch.bool else values.to(dtype)


def convert(a: Tensor, dtype: torch.dtype) -> Tensor:
    """Converts between all dtypes with something left of the values."""
    if dtype == torch.bool:
        return a > 0 if a.dtype != torch.bool else a
    if dtype == torch.int64 and a.is_floating_point():
        return (a * 5).to(dtype)
    return a.to(dtype)


def total(a: Tensor) -> Tensor:
    """Returns a 0-dim float32 tensor between -1 and 1 that each element has a part in."""
    return a.float().sum().sin()


def fit(a: Tensor, b: Tensor) -> Tensor:
    """Returns small values of b in new memory, of a's dtype, that broadcast to a's shape."""
    small = b.float().sin() if a.shape == b.shape else total(b)
    return convert(small, a.dtype)


def floating(a: Tensor) -> Tensor:
    return a if a.is_floating_point() else a.float()


def _scale(a: Tensor, b: Tensor) -> Tensor:
    if a.dtype == torch.bool:
        return ~a
    return a * 0.75 + 0.5 if a.is_floating_point() else a * 3 % 7


def _gram(a: Tensor, b: Tensor) -> Tensor:
    a = floating(a)
    return torch.sin(a @ a.t()) if a.dim() == 2 else torch.sin(a * a)


def _cat(a: Tensor, b: Tensor) -> Tensor:
    joinable = a.dim() > 0 and a.dim() == b.dim() and a.shape[1:] == b.shape[1:] and a.dtype == b.dtype
    both = [a, b] if joinable else [a.reshape(-1), _scale(a, b).reshape(-1)]
    return torch.cat(both)[:SIDE]


def _put(a: Tensor, b: Tensor) -> Tensor:
    made = a.reshape(-1).clone()
    if a.numel() == 0:
        return made
    return made.index_put_((torch.zeros(1, dtype=torch.long, device="mps"),), convert(total(b), a.dtype))


def _filled(a: Tensor, b: Tensor) -> Tensor:
    made = torch.empty_like(a)
    made.zero_()
    return made.copy_(fit(a, b).expand_as(made))


def _attention(a: Tensor, b: Tensor) -> Tensor:
    if a.dim() != 2 or a.numel() == 0:
        return floating(a).sigmoid()
    a = floating(a)[None, None]
    return functional.scaled_dot_product_attention(a, a, a)[0, 0]


def _large(a: Tensor, b: Tensor) -> Tensor:
    """A view of a large tensor, which is taken from another kind of heap."""
    made = torch.full((LARGE, LARGE), 0.5, device="mps") + total(a)
    return made[: SIDE * 2 : 2, LARGE - SIDE :]


def _scratch(a: Tensor, b: Tensor) -> Tensor:
    """Frees and allocates in turn, in several sizes."""
    small = total(a)
    for length in (3000, 100, 70000):
        small = (torch.ones(length, device="mps") * small).sum().cos()
    return small


def _gradient(a: Tensor, b: Tensor) -> Tensor:
    leaf = a.float().clone().requires_grad_()
    loss = (leaf * leaf + total(b)).sin().sum()
    return torch.autograd.grad(loss, leaf)[0]


MAKING: dict[str, Operation] = {
    "clone": lambda a, b: a.clone(),
    "add": lambda a, b: torch.logical_xor(a, fit(a, b)) if a.dtype == torch.bool else a + fit(a, b),
    "scale": _scale,
    "tanh": lambda a, b: floating(a).tanh(),
    "gram": _gram,
    "softmax": lambda a, b: floating(a).softmax(-1) if a.dim() else floating(a).sigmoid(),
    "sum": lambda a, b: torch.sin(floating(a).sum(0, keepdim=True)) if a.dim() else floating(a).neg(),
    "total": lambda a, b: total(a),
    "fmax": lambda a, b: torch.fmax(floating(a), fit(floating(a), b) * torch.ones_like(floating(a))),
    "where": lambda a, b: torch.where(a > 0, a, convert(total(b), a.dtype)),
    "greater": lambda a, b: a > fit(a, b),
    "masked_fill": lambda a, b: a.masked_fill(fit(a, b) > 0, 1),
    "half": lambda a, b: convert(a, torch.float16),
    "integers": lambda a, b: convert(a, torch.int64) % 9,
    "booleans": lambda a, b: convert(a, torch.bool),
    "index": lambda a, b: a[torch.tensor([a.shape[0] - 1, 0], device="mps")] if a.dim() and a.shape[0] else a.clone(),
    "cat": _cat,
    "put": _put,
    "filled": _filled,
    "triu": lambda a, b: floating(a).triu() if a.dim() == 2 else floating(a).abs(),
    "expanded": lambda a, b: floating(a).unsqueeze(0).expand(3, *a.shape).sum(0).sin(),
    "attention": _attention,
    "norm": lambda a, b: (
        functional.layer_norm(a.float(), a.shape[-1:]) if a.dim() and a.numel() else floating(a).tanh()
    ),
    "sort": lambda a, b: torch.sort(a.float(), -1).values if a.dim() and a.numel() else a.clone(),
    "arange": lambda a, b: torch.arange(SIDE, device="mps") * 2,
    "none": lambda a, b: torch.ones(0, SIDE, dtype=a.dtype, device="mps"),
    "large": _large,
    "scratch": _scratch,
    "gradient": _gradient,
}
VIEWS: dict[str, Operation] = {
    "detach": lambda a, b: a.detach(),
    "rows": lambda a, b: a[1:] if a.dim() and a.shape[0] > 1 else a.view(a.shape),
    "every_other": lambda a, b: a[..., ::2] if a.dim() else a.view(1),
    "transpose": lambda a, b: a.t() if a.dim() == 2 else a.unsqueeze(0) if a.dim() < 2 else a[0],
    "select": lambda a, b: a.select(0, a.shape[0] - 1) if a.dim() and a.shape[0] else a,
}
IN_PLACE: dict[str, Operation] = {
    "neg_": lambda a, b: a.logical_not_() if a.dtype == torch.bool else a.neg_(),
    "add_": lambda a, b: a.logical_xor_(fit(a, b)) if a.dtype == torch.bool else a.add_(fit(a, b)),
    "mul_": lambda a, b: a.mul_(0.5) if a.is_floating_point() else a.mul_(fit(a, b)),
    "copy_": lambda a, b: a.copy_(fit(a, b).expand_as(a)),
    "cast_": lambda a, b: a.copy_(b.clone()) if a.shape == b.shape else a.zero_(),
    "zero_": lambda a, b: a.zero_(),
    "fill_": lambda a, b: a.fill_(0.25),
    "clamp_": lambda a, b: a.clamp_(-1, 1) if a.is_floating_point() else a.zero_(),
}

# Those of the last group have no argument for a generator.
DRAWS: dict[str, Draw] = {
    "rand": lambda a, g: torch.rand(a.shape, device="mps", generator=g),
    "randn": lambda a, g: torch.randn(a.shape, device="mps", dtype=torch.float16, generator=g),
    "randint": lambda a, g: torch.randint(-3, 9, a.shape, device="mps", generator=g),
    "randperm": lambda a, g: torch.randperm(SIDE, device="mps", generator=g),
    "normal": lambda a, g: torch.normal(a.float(), a.float().abs(), generator=g),
    "bernoulli": lambda a, g: torch.bernoulli(a.float().sigmoid(), generator=g),
    "multinomial": lambda a, g: torch.multinomial(
        total(a).abs() + torch.ones(SIDE, device="mps"), 6, True, generator=g
    ),
    "multinomial without replacement": lambda a, g: torch.multinomial(
        total(a).abs() + torch.ones(SIDE, device="mps"), 2, generator=g
    ),
    "exponential_": lambda a, g: torch.empty_like(a, dtype=torch.float32).exponential_(2.0, generator=g),
    "random_": lambda a, g: torch.empty_like(a, dtype=torch.int64).random_(2, 9, generator=g),
    "dropout": lambda a, g: functional.dropout(floating(a), 0.5),
    "rand_like": lambda a, g: torch.rand_like(floating(a)),
}
DRAWS_IN_PLACE: dict[str, Draw] = {
    "uniform_": lambda a, g: a.uniform_(-1, 1, generator=g) if a.is_floating_point() else a.zero_(),
    "normal_": lambda a, g: a.normal_(0, 1, generator=g) if a.is_floating_point() else a.zero_(),
    "bernoulli_": lambda a, g: a.bernoulli_(0.5, generator=g),
}
