"""Kernels of a replay that may run at the same time: which wait for which, and values that show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from patched import mps

import mps_simulator

WAIT_OF_A_COMMAND = "-[MTLIndirectComputeCommand setBarrier]"
WAIT = "-[MTLComputeCommandEncoder memoryBarrierWithScope:]"
EXECUTE = "-[MTLComputeCommandEncoder executeCommandsInBuffer:withRange:]"
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
def mechanism(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The captures that follow have kernels that may run at the same time."""
    monkeypatch.setenv("PYTORCH_MPS_GRAPH_WITH", request.param)
    return str(request.param)


def captured(block: Callable[[], object]) -> tuple[mps.MPSGraph, int]:
    """A graph of the block, and how many commands of indirect command buffers wait in it."""
    block()
    mps.synchronize()
    mps_simulator.reset_counters()
    graph = mps.MPSGraph()
    with mps.graph(graph):
        block()
    return graph, Counter(mps_simulator.counters())[WAIT_OF_A_COMMAND]


def waits_of(block: Callable[[], object]) -> int:
    """How many kernels of a replay wait for others."""
    graph, waits = captured(block)
    mps_simulator.reset_counters()
    graph.replay()
    calls = Counter(mps_simulator.counters())
    mps.synchronize()
    return waits + calls[WAIT]


def check(block: Callable[[], object], tensors: list[torch.Tensor], seed: int = 0) -> None:
    """A replay of the block does to other values what eager does."""
    graph, _ = captured(block)
    torch.manual_seed(seed)
    start = [torch.randn(tensor.shape) for tensor in tensors]

    def results(run: Callable[[], object]) -> list[torch.Tensor]:
        for tensor, value in zip(tensors, start):
            tensor.copy_(value)
        run()
        return [tensor.cpu() for tensor in tensors]

    for got, expected in zip(results(graph.replay), results(block)):
        assert torch.equal(got, expected)


def test_only_conflicts_make_kernels_wait(mechanism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    library = mps._compile_shader(SOURCE)
    xs = [torch.zeros(64, device="mps") for _ in range(8)]
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


def test_a_chain_waits_everywhere(mechanism: str) -> None:
    library = mps._compile_shader(SOURCE)
    x, y = torch.zeros(64, device="mps"), torch.zeros(64, device="mps")

    def block() -> None:
        for _ in range(4):
            library.twice(y, x)
            library.twice(x, y)

    assert waits_of(block) == 7
    check(block, [x, y])


def test_what_may_be_written_counts_as_written(mechanism: str) -> None:
    """`copy` only reads its second buffer, but its declaration does not say so."""
    library = mps._compile_shader(SOURCE)
    xs = [torch.zeros(64, device="mps") for _ in range(6)]

    def block() -> None:
        for x in xs[1:]:
            library.copy(x, xs[0])

    assert waits_of(block) == 4
    check(block, xs)


def test_parts_of_a_buffer(mechanism: str) -> None:
    """How far a kernel goes is not known: only what begins behind another one's end can do without waiting."""
    library = mps._compile_shader(SOURCE)
    x, y = torch.zeros(6, 256, device="mps"), torch.ones(256, device="mps")

    def block() -> None:
        for row in x:
            library.add(row, y)

    assert waits_of(block) == 5
    check(block, [x, y])


def test_memory_that_is_used_again(mechanism: str) -> None:
    """27: temporary tensors lie where earlier ones lay, in another buffer of the same heap."""
    library = mps._compile_shader(SOURCE)
    xs, ys = ([torch.zeros(5000, device="mps") for _ in range(12)] for _ in range(2))

    def block() -> None:
        # Nothing but the temporary tensors makes one turn wait for another.
        for i, (x, y) in enumerate(zip(xs, ys)):
            part = torch.empty(5000 - 1000 * (i % 3), device="mps")
            library.twice(part, x)
            library.add(y[: part.numel()], part)
            del part  # before the next one is made

    for seed in range(3):
        check(block, xs + ys, seed)


def test_other_steps_in_between(mechanism: str) -> None:
    library = mps._compile_shader(SOURCE)
    xs = [torch.zeros(64, device="mps") for _ in range(6)]

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


def test_encoders_are_concurrent_only_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    library = mps._compile_shader(SOURCE)
    x, y = torch.zeros(64, device="mps"), torch.zeros(64, device="mps")

    def calls() -> Counter[str]:
        graph, _ = captured(lambda: library.add(x, y))
        mps_simulator.reset_counters()
        graph.replay()
        return Counter(mps_simulator.counters())

    serial = calls()
    assert serial[SERIAL] == 1 and serial[CONCURRENT] == 0
    monkeypatch.setenv("PYTORCH_MPS_GRAPH_WITH", "concurrent_kernels")
    concurrent = calls()
    assert concurrent[SERIAL] == 0 and concurrent[CONCURRENT] == 1


def test_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """27: indirect command buffers in concurrent encoders, between kernels that they cannot hold."""
    monkeypatch.setenv("PYTORCH_MPS_GRAPH_WITH", "concurrent_kernels,indirect_commands")
    library = mps._compile_shader(SOURCE)
    xs = [torch.zeros(64, device="mps") for _ in range(6)]
    table = torch.zeros(64, device="mps")

    def block() -> None:
        for _ in range(3):
            for x in xs[1:]:
                library.add(x, xs[0])
            table.index_put_((torch.tensor([1], device="mps"),), xs[1][:1], accumulate=True)
            for x in xs[1:]:
                library.add(xs[0], x)

    check(block, [*xs, table])


def test_indirect_commands_wait_for_what_they_cannot_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """27: a kernel in the same concurrent encoder."""
    monkeypatch.setenv("PYTORCH_MPS_GRAPH_WITH", "concurrent_kernels,indirect_commands")
    monkeypatch.setenv("PYTORCH_MPS_GRAPH_WITHOUT", "constant_buffer")  # so that a number stays with its call
    library = mps._compile_shader(SOURCE)
    xs, y = [torch.zeros(64, device="mps") for _ in range(6)], torch.zeros(64, device="mps")

    def block() -> None:
        library.scale(y, 3.0)
        for x in xs:
            library.add(x, y)

    check(block, [*xs, y])
