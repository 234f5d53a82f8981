"""The calls of which a replay consists, and values."""

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from replays import calls_in, calls_of, captured, check
from torch import mps

KERNELS = "-[MPSCommandBuffer computeCommandEncoder]"
PIPELINE = "-[MTLComputeCommandEncoder setComputePipelineState:]"
DISPATCH = "-[MTLComputeCommandEncoder dispatchThreads:threadsPerThreadgroup:]"
EXECUTE = "-[MTLComputeCommandEncoder executeCommandsInBuffer:withRange:]"
NEW_BUFFER = "-[MTLDevice newBufferWithLength:options:]"

SOURCE = """
#include <metal_stdlib>
using namespace metal;
kernel void step(device float* x, constant float& factor, constant float& term, uint i [[thread_position_in_grid]]) {
  x[i] = x[i] * factor + term;
}
kernel void add(device float* x, device const float* y, uint i [[thread_position_in_grid]]) { x[i] += y[i]; }
"""
# What a block does, and the tensors that it reads and writes.
Work = tuple[Callable[[], Any], list[torch.Tensor]]


def tensors(count: int, device: str = "mps") -> list[torch.Tensor]:
    return [torch.full((32,), float(i), device=device) for i in range(count)]


def uploads() -> Work:
    hosts, targets = tensors(5, "cpu"), tensors(5)
    return lambda: [target.copy_(host) for target, host in zip(targets, hosts)], hosts + targets


def chain(length: int) -> Work:
    """Kernels one after the other on one tensor, each with numbers of its own."""
    library = mps._compile_shader(SOURCE)
    x = torch.ones(8, device="mps")
    numbers = [(0.75 + (i % 5) / 8, float(i % 7)) for i in range(length)]
    return lambda: [library.step(x, factor, term) for factor, term in numbers], [x]


def test_dropping_a_graph_calls_nothing() -> None:
    """15: the queue gives back the numbers that it keeps, later."""
    x = torch.ones(8, device="mps")
    graphs = [captured(lambda: [torch.add(x, x, alpha=i) for i in range(2, 12)])[0]]
    assert calls_in(graphs.clear) == {}


def test_host_refreshes_make_no_buffer() -> None:
    block, inputs = uploads()
    assert calls_of(block)[NEW_BUFFER] == 0
    check(block, inputs)


def encoder_calls(run: Callable[[], object]) -> Counter[str]:
    """Those to command encoders, until the work is done."""
    calls = calls_in(lambda: (run(), mps.synchronize()))
    return Counter({name: count for name, count in calls.items() if "CommandEncoder" in name})


def gathered(count: int) -> Callable[[], object]:
    """Kernels with argument buffers, each of which declares resources."""
    x = torch.arange(128.0, device="mps")
    rows = [torch.arange(8, device="mps") + i for i in range(count)]
    return lambda: [x[row] for row in rows]


def with_threadgroup_memory() -> Callable[[], object]:
    x = torch.randn(64, 64, device="mps", dtype=torch.float16)
    weight = torch.ones(64, 64, device="mps", dtype=torch.int8)
    scales = torch.ones(64, device="mps", dtype=torch.float16)
    y = torch.arange(16, device="mps", dtype=torch.int32)

    def block() -> object:
        z = y
        for _ in range(20):
            z = torch.bitwise_not(z)
        return torch._weight_int8pack_mm(x, weight, scales), torch.bitwise_not(z)

    return block


def fused_optimizer() -> Callable[[], object]:
    parameters = [torch.ones(4, device="mps", requires_grad=True) for _ in range(50)]
    for parameter in parameters:
        parameter.grad = torch.ones(4, device="mps")
    optimizer = torch.optim.AdamW(parameters, lr=torch.tensor(0.1, device="mps"), fused=True)
    optimizer.step()
    return optimizer.step


@pytest.mark.parametrize(
    "make", [lambda: gathered(100), with_threadgroup_memory, fused_optimizer, lambda: chain(50)[0]]
)
def test_a_replay_makes_the_encoder_calls_of_eager(make: Callable[[], Callable[[], object]]) -> None:
    """46: those of eager without its debug groups, whatever stays set in an encoder."""
    block = make()
    block()
    eager = encoder_calls(block)
    del eager["-[MTLCommandEncoder pushDebugGroup:]"], eager["-[MTLCommandEncoder popDebugGroup]"]
    graph, _ = captured(block)
    graph.replay()
    assert encoder_calls(graph.replay) == eager


def test_commits_of_a_replay() -> None:
    """46: small replays share command buffers with eager work; a large one begins before the host waits for it."""
    x, out = torch.zeros(64, device="mps"), torch.zeros(64, device="mps")
    graph, y = captured(lambda: (x * 2 + 1).relu())

    def decode() -> None:
        for i in range(50):
            x.fill_(i)
            graph.replay()
            out.add_(y)

    assert calls_in(decode)["-[MTLCommandBuffer commit]"] <= 50
    large, _ = captured(chain(100)[0], check_input_liveness=False)
    assert calls_in(large.replay)["-[MTLCommandBuffer commit]"] == 1
    assert out[0].item() == sum(2 * i + 1 for i in range(50))


def test_copies_that_need_each_other() -> None:
    a, b, c, d = tensors(4)

    def block() -> None:
        b.copy_(a)
        c.copy_(b)
        a.zero_()
        d[:16].copy_(c[:16])
        d[8:24].fill_(0)

    check(block, [a, b, c, d])


def test_staging_holds_what_the_host_had_at_the_replay() -> None:
    block, both = uploads()
    graph, _ = captured(block)
    assert graph.stats()["host_refreshes"] == 5
    for host in both[:5]:
        host.add_(10)
    graph.replay()
    for host in both[:5]:
        host.zero_()
    assert [target[3].item() for target in both[5:]] == [10.0, 11.0, 12.0, 13.0, 14.0]


@pytest.mark.parametrize("indirect_commands", ["0", "1"])
def test_steps_of_every_kind(indirect_commands: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCH_MPS_GRAPH_INDIRECT_COMMANDS", indirect_commands)
    block, (x,) = chain(40)
    host, other, y = torch.zeros(8), torch.zeros(8, device="mps"), torch.zeros(8, device="mps")

    def more() -> None:
        other.copy_(host)
        block()
        x.add_(other)
        other.zero_()
        y.copy_(torch.nn.functional.gelu(x * (x @ x)))

    check(more, [x, host, other, y])


def test_views_that_are_gone_are_not_looked_at() -> None:
    """2: what can't be noticed any more costs a replay nothing; what can is noticed."""
    x = torch.rand(3000, 4, device="mps")
    graph, rows = captured(lambda: [*(x[i] for i in range(3000)), x.mul_(2)])
    del rows
    graph.replay()
    x.resize_(30000, 4)
    with pytest.raises(RuntimeError, match="another storage"):
        graph.replay()


def test_kernels_become_one_call(indirect: None, monkeypatch: pytest.MonkeyPatch) -> None:
    block, inputs = chain(1000)
    calls = calls_of(block)
    assert calls[EXECUTE] == 1 and calls[KERNELS] == 1
    # The one pipeline is used once by itself, on GPUs before the ninth family.
    used_first = int(os.environ.get("MPS_SIMULATOR_GPU_FAMILY", "8")) < 9
    assert calls[DISPATCH] == 0 and calls[PIPELINE] == used_first
    check(block, inputs)
    monkeypatch.delenv("PYTORCH_MPS_GRAPH_INDIRECT_COMMANDS")
    direct = calls_of(block)
    assert direct[EXECUTE] == 0 and direct[DISPATCH] == 1000
    assert sum(direct.values()) >= 50 * sum(calls.values())


def test_replays_of_indirect_commands_in_flight(indirect: None) -> None:
    """Each replay waits for the one before, and reads what the host has written since."""
    block, (x,) = chain(16)
    host, y = torch.zeros(8), torch.zeros(8, device="mps")

    def more() -> None:
        x.copy_(host)
        block()
        y.copy_(x)

    graph, _ = captured(more)
    results: dict[str, list[torch.Tensor]] = {}
    for way, run in (("replay", graph.replay), ("eager", more)):
        results[way] = []
        for i in range(8):
            host.fill_(i)
            run()
            results[way].append(y.clone())
    assert all(map(torch.equal, results["replay"], results["eager"]))
    assert len({result[0].item() for result in results["eager"]}) == 8


def test_other_work_in_between(indirect: None) -> None:
    """Few kernels in a row, graph runs and copies are encoded as before, and in their order."""
    library = mps._compile_shader(SOURCE)
    x, y, z, w = (torch.arange(8.0, device="mps") + i for i in range(4))

    def block() -> None:
        for _ in range(5):
            library.add(x, y)
            library.add(y, z)
        z.copy_(x)
        library.add(z, y)
        w.copy_(torch.nn.functional.gelu(z / 64))
        for _ in range(4):
            library.add(z, w)
        z.zero_()
        for _ in range(4):
            library.add(z, x)

    calls = calls_of(block)
    assert calls[EXECUTE] == 3 and calls[DISPATCH] == 1
    check(block, [x, y, z, w])
