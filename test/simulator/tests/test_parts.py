"""Elementwise graphs on tensors so long that they run in parts give what they give on the CPU, bit by bit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

# Not a multiple of any part's length, and one that leaves a part of one element.
LENGTHS = (200_003, 2 * 65_536 + 1)
OPERATIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "add": lambda x, y: x + y,
    "add twice": lambda x, y: torch.add(x, y, alpha=2),
    "subtract a number": lambda x, y: x - 1.5,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "where": lambda x, y: torch.where(x > y, x, y),
    "floor": lambda x, y: x.floor(),
    "relu": lambda x, y: x.relu(),
    "to half": lambda x, y: x.half(),
    "to float": lambda x, y: x.float(),
    "in place, itself": lambda x, y: x.clone().add_(1).mul_(y),
    "in place, both": lambda x, y: (z := x.clone()).mul_(z),
    "two dimensions": lambda x, y: x.view(1, -1) + y.view(1, -1),
    "transposed": lambda x, y: x[:90_000].view(300, 300).t() + y[:90_000].view(300, 300),
    "a broadcast row": lambda x, y: x[:90_000].view(300, 300) * y[:300],
}


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("name", OPERATIONS)
def test_operation_in_parts(name: str, dtype: torch.dtype, length: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(length).to(dtype)
    y = (torch.rand(length) + 0.5).to(dtype)
    expected = OPERATIONS[name](x, y)
    result = OPERATIONS[name](x.to("mps"), y.to("mps"))
    assert result.dtype == expected.dtype
    if name == "divide" and dtype == torch.float16:
        torch.testing.assert_close(result.cpu(), expected)
    else:
        assert torch.equal(result.cpu(), expected)


def test_result_over_a_part_of_an_input() -> None:
    x = torch.arange(200_003, dtype=torch.float32)
    expected = x[:-1] + 2
    device = x.to("mps")
    device[1:] = device[:-1] + 2
    assert torch.equal(device[1:].cpu(), expected)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64])
def test_conversion_to_integers_saturates(dtype: torch.dtype) -> None:
    limits = torch.iinfo(dtype)
    numbers = [0.0, -0.9, 1.9, 100.5, -100.5, 1e30, -1e30, float("inf"), float("-inf"), float("nan")]
    expected = [
        0 if number != number else int(min(max(number, float(limits.min)), float(limits.max))) for number in numbers
    ]
    expected = [min(max(number, limits.min), limits.max) for number in expected]
    result = torch.tensor(numbers, device="mps").to(dtype).cpu()
    assert result.tolist() == expected
