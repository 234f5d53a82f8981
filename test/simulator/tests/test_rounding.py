"""The last bit: operations on elements give what the CPU gives, and half precision is rounded once, as on a GPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("name", OPERATIONS)
def test_operation_on_elements(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.randn(90_003).to(dtype)
    y = (torch.rand(90_003) + 0.5).to(dtype)
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


HALVES = [torch.float16, torch.bfloat16]


def uniform(*sizes: int, dtype: torch.dtype) -> torch.Tensor:
    return (torch.rand(*sizes) * 18 - 9).to(dtype)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("groups", [1, 4])
def test_convolution_with_bias(dtype: torch.dtype, groups: int) -> None:
    image = uniform(2, 4, 6, 6, dtype=dtype)
    weight, bias = uniform(4, 4 // groups, 3, 3, dtype=dtype), uniform(4, dtype=dtype)

    def compute(device: str, wide: torch.dtype) -> torch.Tensor:
        moved = (tensor.to(device, wide) for tensor in (image, weight, bias))
        return F.conv2d(*moved, groups=groups, padding=1)

    exact = compute("cpu", torch.float64)
    once, twice = exact.to(dtype), (exact - bias.double().view(-1, 1, 1)).to(dtype) + bias.view(-1, 1, 1)
    assert not torch.equal(once, twice)
    result = compute("mps", dtype).cpu()
    # A sum in single precision is now and then on the other side of a half.
    assert (result != once).float().mean() < 0.03


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("mode", ["replicate", "reflect"])
def test_gradient_of_padding(dtype: torch.dtype, mode: str) -> None:
    gradient = uniform(3, 4, 9, 9, dtype=dtype)

    def compute(device: str, wide: torch.dtype) -> torch.Tensor:
        image = torch.zeros(3, 4, 5, 5, device=device, dtype=wide, requires_grad=True)
        F.pad(image, (2, 2, 2, 2), mode=mode).backward(gradient.to(device, wide))
        assert image.grad is not None
        return image.grad.cpu()

    result, exact = compute("mps", dtype), compute("cpu", torch.float64)
    assert (result != exact.to(dtype)).float().mean() < 0.03


def test_bilinear_resizing_of_bytes() -> None:
    image = torch.tensor([[[[0, 255], [255, 0]]]], dtype=torch.uint8)
    result = F.interpolate(image.to("mps"), size=(4, 4), mode="bilinear").cpu()
    exact = F.interpolate(image.double(), size=(4, 4), mode="bilinear")
    assert torch.equal(result, exact.to(torch.uint8))
    assert not torch.equal(result, exact.round().to(torch.uint8))


@pytest.mark.parametrize("dtype", HALVES)
def test_order_of_targets_does_not_count(dtype: torch.dtype) -> None:
    """The running variance is made of one that is also a result, which executables give in any order."""
    x = uniform(5, 5, 5, dtype=dtype).to("mps")
    statistics = [uniform(5, dtype=dtype).abs().to("mps") for _ in range(2)]
    torch.mps.set_executable_cache_enabled(True)
    try:
        results = []
        for enabled in (False, True) * 8:
            torch.mps.executable_cache_clear()
            torch.mps.set_executable_cache_enabled(enabled)
            mean, variance = (s.clone() for s in statistics)
            results.append([*torch.native_batch_norm(x, None, None, mean, variance, True, 0.5, 0.6), mean, variance])
    finally:
        torch.mps.set_executable_cache_enabled(False)
    assert all(torch.equal(a, b) for made in results for a, b in zip(made, results[0]))
