"""Copies and fills of parts of a tensor are repeated on the same part."""

import pytest
import torch
from replays import captured

LENGTH = 64


def numbers(start: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.arange(start, start + LENGTH, device="mps").to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8, torch.int64])
@pytest.mark.parametrize(("source", "destination", "length"), [(0, 0, LENGTH), (8, 0, 16), (0, 8, 16), (4, 12, 20)])
def test_copy_of_a_part(source: int, destination: int, length: int, dtype: torch.dtype) -> None:
    """3: source, destination and length of a copy."""
    one, other = numbers(0, dtype), numbers(100, dtype)
    graph, _ = captured(lambda: other[destination : destination + length].copy_(one[source : source + length]))
    assert graph.stats()["copies"] == 1
    one.copy_(numbers(20, dtype))
    other.copy_(numbers(150, dtype))
    expected = other.cpu()
    expected[destination : destination + length] = one.cpu()[source : source + length]
    graph.replay()
    assert torch.equal(other.cpu(), expected)
    assert torch.equal(one, numbers(20, dtype))


@pytest.mark.parametrize(("start", "length"), [(0, LENGTH), (0, 16), (8, 16), (40, 24)])
def test_fill_of_a_part(start: int, length: int) -> None:
    """3: place and length of a fill."""
    x = numbers(1, torch.float32)
    graph, _ = captured(x[start : start + length].zero_)
    assert graph.stats()["fills"] == 1
    x.copy_(numbers(5, torch.float32))
    expected = x.cpu()
    expected[start : start + length] = 0
    graph.replay()
    assert torch.equal(x.cpu(), expected)
