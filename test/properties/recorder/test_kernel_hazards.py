"""Commands of an indirect command buffer run at the same time unless they wait: values that show whether they do."""

from typing import Any

import pytest
import torch
from replays import calls_in, captured, check
from torch import mps

pytestmark = pytest.mark.usefixtures("indirect")
WAIT = "-[MTLIndirectComputeCommand setBarrier]"

SOURCE = """
#include <metal_stdlib>
using namespace metal;
kernel void add(device float* x, device const float* y, uint i [[thread_position_in_grid]]) { x[i] += y[i]; }
kernel void twice(device float* to, device const float* from, uint i [[thread_position_in_grid]]) { to[i] = 2 * from[i]; }
"""


@pytest.fixture(scope="module")
def library() -> Any:
    return mps._compile_shader(SOURCE)


def zeros(count: int, size: int = 64) -> list[torch.Tensor]:
    return [torch.zeros(size, device="mps") for _ in range(count)]


def test_each_kernel_waits(library: Any) -> None:
    x, y = zeros(2)

    def block() -> None:
        for _ in range(4):
            library.add(y, x)
            library.twice(x, y)

    block()
    assert calls_in(lambda: captured(block))[WAIT] == 7
    check(block, [x, y])


def test_readers_and_writers(library: Any) -> None:
    xs = zeros(8)
    y = torch.ones(64, device="mps")

    def block() -> None:
        for x in xs:
            library.add(x, y)
        library.add(y, xs[0])  # writes what all read
        library.add(xs[0], xs[1])  # writes what the one before reads

    check(block, [*xs, y])


def test_memory_that_is_used_again(library: Any) -> None:
    """27: temporary tensors lie where earlier ones lay, in another buffer of the same heap."""
    xs, ys = zeros(12, 5000), zeros(12, 5000)

    def block() -> None:
        # Nothing but the temporary tensors makes one turn wait for another.
        for i, (x, y) in enumerate(zip(xs, ys)):
            part = torch.empty(5000 - 1000 * (i % 3), device="mps")
            library.twice(part, x)
            library.add(y[: part.numel()], part)
            del part  # before the next one is made

    for seed in range(3):
        check(block, xs + ys, seed)


def test_other_steps_in_between(library: Any) -> None:
    xs = zeros(6)

    def block() -> None:
        for x in xs[1:]:
            library.add(x, xs[0])
        xs[0].copy_(xs[1])
        for x in xs[1:]:
            library.add(xs[0], x)
        xs[2].fill_(torch.nn.functional.gelu(xs[0][:1]).shape[0])
        for x in xs[1:]:
            library.twice(x, xs[0])

    check(block, xs)


def test_kernels_that_need_the_encoder_in_between(library: Any) -> None:
    """27: such a segment is replayed directly."""
    xs, (table,) = zeros(6), zeros(1)

    def block() -> None:
        for _ in range(3):
            for x in xs[1:]:
                library.add(x, xs[0])
            table.index_put_((torch.tensor([1], device="mps"),), xs[1][:1], accumulate=True)
            for x in xs[1:]:
                library.add(xs[0], x)

    check(block, [*xs, table])
