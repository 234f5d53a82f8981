"""The core of MPSGraph, and the families of operations on elements and shapes.

The core (building, feeds, results, executables, violations) is checked through
the API in ``graph_*_cases.mm``; the families through torch, against its CPU
kernels.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
import torch.nn.functional as F

from objective_cases import failure_of, names_in

if TYPE_CHECKING:
    from collections.abc import Callable

CASES = [Path(__file__).parent / f"graph_{part}_cases.mm" for part in ("call", "core", "execution", "layer")]


@pytest.mark.parametrize("name", names_in(CASES))
def test_core(name: str) -> None:
    failure = failure_of(name)
    assert not failure, failure


def compare(
    function: Callable[..., torch.Tensor],
    *arguments: torch.Tensor,
    rtol: float | None = None,
    atol: float | None = None,
) -> None:
    """Compares the result on the device with the one on the CPU."""
    expected = function(*arguments)
    actual = function(*(argument.to("mps") for argument in arguments))
    assert actual.device.type == "mps"
    torch.testing.assert_close(actual.cpu(), expected, rtol=rtol, atol=atol, equal_nan=True)


REAL_FUNCTIONS = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp", "exp2", "floor",
    "frac", "log", "log10", "log1p", "log2", "neg", "reciprocal", "rsqrt", "sigmoid", "sign", "signbit", "sin", "sinh",
    "sqrt", "square", "tan", "tanh", "trunc", "isnan", "isinf", "logical_not", "relu",
]  # fmt: skip
SPECIAL = [0.0, -0.0, 0.25, -0.25, 1.0, -1.0, 1.5, -2.5, 7.0, float("inf"), float("-inf"), float("nan")]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("name", REAL_FUNCTIONS)
def test_functions_of_one_number(name: str, dtype: torch.dtype) -> None:
    numbers = torch.tensor(SPECIAL, dtype=dtype)
    if name in ("sign", "frac"):
        numbers = numbers[:9]
    compare(getattr(torch, name), numbers)


BINARY_FUNCTIONS = [
    "add", "sub", "mul", "div", "maximum", "minimum", "fmod", "remainder", "eq", "ne", "lt", "le", "gt", "ge",
    "logical_and", "logical_or", "logical_xor",
]  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.int64])
@pytest.mark.parametrize("name", BINARY_FUNCTIONS)
def test_functions_of_two_numbers(name: str, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    left = torch.randint(-9, 10, (3, 1, 5), generator=generator).to(dtype)
    right = torch.randint(1, 10, (4, 1), generator=generator).to(dtype)
    compare(getattr(torch, name), left, right)


def test_power_and_arc_tangent() -> None:
    left = torch.rand(3, 4) + 0.1
    right = torch.randn(4)
    compare(torch.pow, left, right)
    compare(torch.atan2, left, right)


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "amin", "prod", "var", "all", "any", "argmax", "argmin"])
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("keepdim", [False, True])
def test_reductions(name: str, dim: int, keepdim: bool) -> None:
    numbers = torch.randn(3, 4, 5).round(decimals=1)
    compare(lambda tensor: getattr(torch, name)(tensor, dim=dim, keepdim=keepdim), numbers)


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "prod", "all", "any"])
def test_reductions_of_everything(name: str) -> None:
    compare(getattr(torch, name), torch.randn(3, 4, 5))


def test_reductions_pass_nan_on() -> None:
    numbers = torch.tensor([[1.0, float("nan")], [2.0, 3.0]])
    compare(lambda tensor: torch.amax(tensor, 1), numbers)
    compare(lambda tensor: torch.amin(tensor, 1), numbers)


TYPES = [torch.float32, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]


@pytest.mark.parametrize("source", TYPES)
@pytest.mark.parametrize("target", TYPES)
def test_casts(source: torch.dtype, target: torch.dtype) -> None:
    numbers = torch.tensor([0, 1, 2, 7, 100]).to(source)
    compare(lambda tensor: tensor.to(target), numbers)


SHAPE_FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "cat": lambda tensor: torch.cat([tensor, tensor + 1, tensor], 1),
    "stack": lambda tensor: torch.stack([tensor, tensor + 1], -1),
    "repeat": lambda tensor: tensor.repeat(2, 1, 3),
    "flip": lambda tensor: tensor.flip(0, 2),
    "roll": lambda tensor: tensor.roll(2, 1),
    "tril": lambda tensor: tensor.tril(-1),
    "triu": lambda tensor: tensor.triu(1),
    "cumsum": lambda tensor: tensor.cumsum(1),
    "cumprod": lambda tensor: tensor.cumprod(-1),
    "softmax": lambda tensor: tensor.softmax(1),
    "log_softmax": lambda tensor: tensor.log_softmax(-1),
    "glu": lambda tensor: F.glu(tensor, 1),
    "transposed sum": lambda tensor: (tensor.transpose(0, 2) + 1).sum(0),
    "strided sum": lambda tensor: tensor[:, ::2, 1:].exp(),
    "expanded": lambda tensor: tensor[:, :1].expand(3, 7, 5) * 2,
    "where": lambda tensor: torch.where(tensor > 0, tensor, -tensor),
    "clamp": lambda tensor: tensor.clamp(-0.5, 0.5),
    "nonzero": lambda tensor: tensor.relu().nonzero(),
    "pixel_shuffle": lambda tensor: F.pixel_shuffle(tensor.repeat(4, 1, 1), 2),
    "pixel_unshuffle": lambda tensor: F.pixel_unshuffle(tensor[:, :4, :4], 2),
    "constant pad": lambda tensor: F.pad(tensor, (1, 2, 0, 3), value=4.0),
    "reflection pad": lambda tensor: F.pad(tensor, (1, 2), mode="reflect"),
    "replication pad": lambda tensor: F.pad(tensor, (2, 1), mode="replicate"),
    "negative pad": lambda tensor: F.pad(tensor, (-1, 2), value=1.0),
    "one hot": lambda tensor: F.one_hot(tensor.abs().long().clamp(0, 2), 3),
}


@pytest.mark.parametrize("name", SHAPE_FUNCTIONS)
def test_shapes(name: str) -> None:
    compare(SHAPE_FUNCTIONS[name], torch.randn(3, 4, 5))


GRADIENTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "gelu": F.gelu,
    "silu": F.silu,
    "softplus": F.softplus,
    "leaky_relu": F.leaky_relu,
    "elu": F.elu,
    "hardswish": F.hardswish,
    "softmax": lambda tensor: tensor.softmax(-1) ** 2,
    "log_softmax": lambda tensor: tensor.log_softmax(1) ** 2,
    "reflection pad": lambda tensor: F.pad(tensor, (2, 1), mode="reflect") ** 2,
    "replication pad": lambda tensor: F.pad(tensor, (2, 1), mode="replicate") ** 2,
    "constant pad": lambda tensor: F.pad(tensor, (2, 1)) ** 2,
    "sum": lambda tensor: tensor.sum(1) ** 2,
    "var": lambda tensor: tensor.var(1),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str) -> None:
    def gradient(tensor: torch.Tensor) -> torch.Tensor:
        leaf = tensor.detach().clone().requires_grad_()
        (result,) = torch.autograd.grad(GRADIENTS[name](leaf).sum(), leaf)
        return result

    compare(gradient, torch.randn(3, 4, 5), rtol=1e-4, atol=1e-5)


def test_uniform_numbers() -> None:
    torch.mps.manual_seed(3)
    numbers = torch.rand(40000, device="mps").cpu()
    assert 0 <= numbers.min() < 0.001
    assert 0.999 < numbers.max() < 1
    assert abs(numbers.mean() - 0.5) < 0.01
    assert abs(numbers.var() - 1 / 12) < 0.005


def test_normal_numbers() -> None:
    torch.mps.manual_seed(3)
    numbers = torch.randn(40000, device="mps").cpu()
    assert abs(numbers.mean()) < 0.02
    assert abs(numbers.std() - 1) < 0.02
    # A share of 4.55 % lies farther than two deviations from the mean.
    assert abs((numbers.abs() > 2).float().mean() - 0.0455) < 0.005
    neighbours = torch.stack([numbers[0::2], numbers[1::2]])
    assert abs(torch.corrcoef(neighbours)[0, 1]) < 0.02


def test_whole_numbers() -> None:
    numbers = torch.randint(-3, 4, (20000,), device="mps").cpu()
    assert set(numbers.tolist()) == set(range(-3, 4))
    shares = torch.bincount(numbers + 3) / len(numbers)
    assert (shares - 1 / 7).abs().max() < 0.02


def test_seeds_repeat_and_runs_differ() -> None:
    torch.mps.manual_seed(5)
    first = torch.rand(100, device="mps").cpu()
    second = torch.rand(100, device="mps").cpu()
    torch.mps.manual_seed(5)
    again = torch.rand(100, device="mps").cpu()
    assert torch.equal(first, again)
    assert not torch.equal(first, second)


def test_permutations() -> None:
    permutation = torch.randperm(500, device="mps").cpu()
    assert permutation.sort().values.tolist() == list(range(500))
    assert permutation.tolist() != list(range(500))


def test_complex_numbers() -> None:
    numbers = torch.randn(3, 4, dtype=torch.complex64)
    compare(lambda tensor: tensor * tensor.conj(), numbers)
    compare(lambda tensor: (tensor + 1).real, numbers)
    compare(lambda tensor: tensor.abs(), numbers)
