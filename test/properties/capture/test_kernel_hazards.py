"""Kernels of a replay that may run at the same time: which wait for which, and values that show it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from patched import mps
from replays import calls_in, calls_of, captured, check

WAIT_OF_A_COMMAND = "-[MTLIndirectComputeCommand setBarrier]"
WAIT = "-[MTLComputeCommandEncoder memoryBarrierWithScope:]"
CONCURRENT = "-[MPSCommandBuffer computeCommandEncoderWithDispatchType:]"
SERIAL = "-[MPSCommandBuffer computeCommandEncoder]"

SOURCE = """
#include <metal_stdlib>
using namespace metal;
kernel void add(device float* x, device const float* y, uint i [[thread_position_in_grid]]) { x[i] += y[i]; }
kernel void scale(device float* x, constant float& factor, uint i [[thread_position_in_grid]]) { x[i] *= factor; }
kernel void twice(device float* to, device const float* from, uint i [[thread_position_in_grid]]) { to[i] = 2 * from[i]; }
kernel void copy(device float* to, device float* from, uint i [[thread_position_in_grid]]) { to[i] = from[i]; }
"""


@pytest.fixture(params=["indirect_commands", "concurrent_kernels"])
def mechanism(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The captures that follow have kernels that may run at the same time."""
    monkeypatch.setenv("PYTORCH_MPS_GRAPH_WITH", request.param)


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> None:
    """Indirect command buffers lie in concurrent encoders in the captures that follow."""
    monkeypatch.setenv("PYTORCH_MPS_GRAPH_WITH", "concurrent_kernels,indirect_commands")


@pytest.fixture(scope="module")
def library() -> Any:
    return mps._compile_shader(SOURCE)


def zeros(count: int, size: int = 64) -> list[torch.Tensor]:
    return [torch.zeros(size, device="mps") for _ in range(count)]


def waits_of(block: Callable[[], object]) -> int:
    """How many kernels of a replay wait for others: in indirect command buffers, and in its encoders."""
    waits = calls_of(block)[WAIT]
    return waits + calls_in(lambda: captured(block))[WAIT_OF_A_COMMAND]


def test_only_conflicts_make_kernels_wait(mechanism: None, library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    xs = zeros(8)
    y = torch.ones(64, device="mps")

    def block() -> None:
        for x in xs:
            library.add(x, y)  # all read y, each writes its own
        library.add(y, xs[0])  # writes what all read, reads what one has written
        library.add(xs[0], xs[1])  # writes what the one before reads
        library.add(xs[2], xs[3])  # neither

    assert waits_of(block) == 2
    check(block, [*xs, y])
    monkeypatch.setenv("PYTORCH_MPS_GRAPH_WITHOUT", "hazard_tracking")
    assert waits_of(block) == len(xs) + 2
    check(block, [*xs, y])


def test_a_chain_waits_everywhere(mechanism: None, library: Any) -> None:
    x, y = zeros(2)

    def block() -> None:
        for _ in range(4):
            library.twice(y, x)
            library.twice(x, y)

    assert waits_of(block) == 7
    check(block, [x, y])


def test_what_may_be_written_counts_as_written(mechanism: None, library: Any) -> None:
    """`copy` only reads its second buffer, but its declaration does not say so."""
    xs = zeros(6)

    def block() -> None:
        for x in xs[1:]:
            library.copy(x, xs[0])

    assert waits_of(block) == 4
    check(block, xs)


def test_parts_of_a_buffer(mechanism: None, library: Any) -> None:
    """How far a kernel goes is not known: only what begins behind another one's end can do without waiting."""
    x, y = torch.zeros(6, 256, device="mps"), torch.ones(256, device="mps")

    def block() -> None:
        for row in x:
            library.add(row, y)

    assert waits_of(block) == 5
    check(block, [x, y])


def test_memory_that_is_used_again(mechanism: None, library: Any) -> None:
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


def test_other_steps_in_between(mechanism: None, library: Any) -> None:
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


@pytest.mark.parametrize(("requested", "encoder"), [("", SERIAL), ("concurrent_kernels", CONCURRENT)])
def test_encoders_are_concurrent_only_on_request(
    requested: str, encoder: str, library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTORCH_MPS_GRAPH_WITH", requested)
    x, y = zeros(2)
    calls = calls_of(lambda: library.add(x, y))
    assert calls[encoder] == calls[SERIAL] + calls[CONCURRENT] == 1


def test_both(both: None, library: Any) -> None:
    """27: indirect command buffers in concurrent encoders, between kernels that they cannot hold."""
    xs, (table,) = zeros(6), zeros(1)

    def block() -> None:
        for _ in range(3):
            for x in xs[1:]:
                library.add(x, xs[0])
            table.index_put_((torch.tensor([1], device="mps"),), xs[1][:1], accumulate=True)
            for x in xs[1:]:
                library.add(xs[0], x)

    check(block, [*xs, table])


def test_indirect_commands_wait_for_what_they_cannot_hold(
    both: None, library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """27: a kernel in the same concurrent encoder."""
    monkeypatch.setenv("PYTORCH_MPS_GRAPH_WITHOUT", "constant_buffer")  # so that a number stays with its call
    xs, (y,) = zeros(6), zeros(1)

    def block() -> None:
        library.scale(y, 3.0)
        for x in xs:
            library.add(x, y)

    check(block, [*xs, y])
