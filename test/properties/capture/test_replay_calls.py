"""The calls of which a replay consists, with each mechanism that saves some and without it, and values in both cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from patched import mps

import mps_simulator

COPY = "-[MTLBlitCommandEncoder copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:]"
BLITS = "-[MPSCommandBuffer blitCommandEncoder]"
KERNELS = "-[MPSCommandBuffer computeCommandEncoder]"
COMMIT = "-[MPSCommandBuffer commitAndContinue]"
BYTES = "-[MTLComputeCommandEncoder setBytes:length:atIndex:]"
BUFFER = "-[MTLComputeCommandEncoder setBuffer:offset:atIndex:]"
BUFFERS = "-[MTLComputeCommandEncoder setBuffers:offsets:withRange:]"
PIPELINE = "-[MTLComputeCommandEncoder setComputePipelineState:]"
DISPATCH = "-[MTLComputeCommandEncoder dispatchThreads:threadsPerThreadgroup:]"
EXECUTE = "-[MTLComputeCommandEncoder executeCommandsInBuffer:withRange:]"
NEW_BUFFER = "-[MTLDevice newBufferWithLength:options:]"
MECHANISMS = ("buffer_ranges", "constant_buffer", "early_commits", "elided_bindings", "shared_blits", "staging_ring")

SOURCE = """
#include <metal_stdlib>
using namespace metal;
kernel void step(device float* x, constant float& factor, constant float& term, uint i [[thread_position_in_grid]]) {
  x[i] = x[i] * factor + term;
}
"""


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Turns a mechanism off for the captures that follow."""
    return lambda name: monkeypatch.setenv("PYTORCH_MPS_GRAPH_WITHOUT", name)


@pytest.fixture
def indirect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of kernels become indirect command buffers in the captures that follow."""
    monkeypatch.setenv("PYTORCH_MPS_GRAPH_WITH", "indirect_commands")


def calls_of(graph: mps.MPSGraph) -> Counter[str]:
    """The calls of one replay, not the first one."""
    graph.replay()
    mps.synchronize()
    mps_simulator.reset_counters()
    graph.replay()
    return Counter(mps_simulator.counters())


def captured(block: Callable[[], object]) -> mps.MPSGraph:
    block()
    graph = mps.MPSGraph()
    with mps.graph(graph):
        block()
    return graph


def tensors(count: int, start: float = 0) -> list[torch.Tensor]:
    return [torch.full((32,), start + i, device="mps") for i in range(count)]


def test_numbers_of_a_graph_are_freed_together() -> None:
    """15: each handler would take a turn of the queue."""
    x = torch.ones(8, device="mps")
    graph = captured(lambda: [torch.add(x, x, alpha=i) for i in range(2, 12)])
    mps.synchronize()
    mps_simulator.reset_counters()
    del graph
    assert mps_simulator.counters()["-[MPSCommandBuffer addCompletedHandler:]"] == 1


def test_copies_share_an_encoder(without: Callable[[str], None]) -> None:
    sources, targets = tensors(20), tensors(20, 100)

    def block() -> None:
        for target, source in zip(targets, sources):
            target.copy_(source)

    graph = captured(block)
    for source in sources:
        source.add_(50)
    calls = calls_of(graph)
    assert calls[COPY] == 20 and calls[BLITS] == 1
    assert [target[0].item() for target in targets] == [50 + i for i in range(20)]
    without("shared_blits")
    assert calls_of(captured(block))[BLITS] == 20


def test_copies_that_need_each_other_do_not() -> None:
    """The order within an encoder is not relied on."""
    a, b, c, d = tensors(4)

    def block() -> None:
        b.copy_(a)  # begins an encoder
        c.copy_(b)  # reads what that wrote
        a.zero_()  # writes what the first one read, which is in another encoder by now
        d[:16].copy_(c[:16])  # reads what the second one wrote
        d[8:24].fill_(0)  # writes what the last one wrote

    graph = captured(block)
    for value, tensor in enumerate((a, b, c, d), 60):
        tensor.fill_(value)
    calls = calls_of(graph)
    expected = [x.clone() for x in (torch.full((32,), 60.0), *[torch.full((32,), 60.0)] * 2, torch.full((32,), 63.0))]
    # The second of two replays.
    expected[0].zero_(), expected[1].zero_(), expected[2].zero_()
    expected[3][:24] = 0
    assert [x.tolist() for x in (a, b, c, d)] == [x.tolist() for x in expected]
    assert calls[BLITS] == 4


def test_values_of_copies_that_need_each_other() -> None:
    a, b, c, d = tensors(4)

    def block() -> None:
        b.copy_(a)
        c.copy_(b)
        a.zero_()
        d[:16].copy_(c[:16])
        d[8:24].fill_(0)

    graph = captured(block)
    for value, tensor in enumerate((a, b, c, d), 60):
        tensor.fill_(value)
    graph.replay()
    expected = torch.full((32,), 63.0)
    expected[:8], expected[8:24] = 60, 0
    assert d.tolist() == expected.tolist()
    assert (a.tolist(), b.tolist(), c.tolist()) == ([0.0] * 32, [60.0] * 32, [60.0] * 32)


def chain(length: int) -> tuple[Callable[[], None], torch.Tensor, list[tuple[float, float]]]:
    """Kernels one after the other on one tensor, each with numbers of its own."""
    library = mps._compile_shader(SOURCE)
    x = torch.ones(8, device="mps")
    numbers = [(1.0 + (i % 5) / 8, float(i % 7)) for i in range(length)]

    def block() -> None:
        for factor, term in numbers:
            library.step(x, factor, term)

    return block, x, numbers


def value_of(numbers: list[tuple[float, float]], x: float) -> torch.Tensor:
    expected = torch.full((8,), x)
    for factor, term in numbers:
        # As the kernel, which rounds twice.
        expected = expected * torch.tensor(factor) + torch.tensor(term)
    return expected


def test_bytes_are_constants(without: Callable[[str], None]) -> None:
    block, x, numbers = chain(12)
    graph = captured(block)
    calls = calls_of(graph)
    assert calls[BYTES] == 0 and calls[DISPATCH] == 12
    assert calls[BUFFERS] + calls[BUFFER] <= 12
    assert calls[NEW_BUFFER] == 0
    x.fill_(3)
    graph.replay()
    torch.testing.assert_close(x.cpu(), value_of(numbers, 3))
    without("constant_buffer")
    calls = calls_of(captured(block))
    # What a kernel has as the one before is not bound again.
    assert 12 < calls[BYTES] <= 24 and calls[BUFFERS] == 0


def test_neighbours_are_bound_together(without: Callable[[str], None]) -> None:
    block, _, _ = chain(12)
    together = calls_of(captured(block))
    without("buffer_ranges")
    apart = calls_of(captured(block))
    assert together[BUFFERS] > 0 and apart[BUFFERS] == 0
    assert sum(apart.values()) > sum(together.values())


def test_what_is_bound_is_not_bound_again(without: Callable[[str], None]) -> None:
    block, _, _ = chain(12)
    assert calls_of(captured(block))[PIPELINE] == 1
    without("elided_bindings")
    calls = calls_of(captured(block))
    assert calls[PIPELINE] == 12 and calls[KERNELS] == 1 and calls[BUFFERS] == 12


def test_first_commit_comes_early(without: Callable[[str], None]) -> None:
    """Of a replay of 1,000 kernels at most 64 are encoded before the GPU gets the first."""
    block, x, numbers = chain(1000)
    graph = captured(block)
    calls = calls_of(graph)
    # Pieces of 64, 128, … calls, two for each kernel.
    assert 4 <= calls[COMMIT] <= 16
    assert calls[KERNELS] == calls[COMMIT]
    x.fill_(2)
    graph.replay()
    torch.testing.assert_close(x.cpu(), value_of(numbers, 2))
    without("early_commits")
    assert calls_of(captured(block))[COMMIT] == 1


def test_small_graph_is_committed_once() -> None:
    block, _, _ = chain(8)
    assert calls_of(captured(block))[COMMIT] == 1


def test_staging_is_used_again(without: Callable[[str], None]) -> None:
    hosts = [torch.full((8,), float(i)) for i in range(5)]
    targets = [torch.zeros(8, device="mps") for _ in hosts]

    def block() -> None:
        for target, host in zip(targets, hosts):
            target.copy_(host)

    graph = captured(block)
    assert graph.stats()["host_refreshes"] == 5
    assert calls_of(graph)[NEW_BUFFER] == 0
    for host in hosts:
        host.add_(10)
    graph.replay()
    for host in hosts:
        host.zero_()
    assert [target[3].item() for target in targets] == [10.0, 11.0, 12.0, 13.0, 14.0]
    without("staging_ring")
    assert calls_of(captured(block))[NEW_BUFFER] == 1


@pytest.mark.parametrize("names", [",".join(MECHANISMS), *MECHANISMS])
def test_values_without(names: str, without: Callable[[str], None]) -> None:
    """What is turned off changes no result."""
    without(names)
    block, x, numbers = chain(40)
    host, other = torch.arange(8.0), torch.zeros(8, device="mps")

    def more() -> torch.Tensor:
        other.copy_(host)
        block()
        x.add_(other)
        other.zero_()
        return torch.nn.functional.gelu(x @ x.reshape(8, 1))

    more()
    graph = mps.MPSGraph()
    with mps.graph(graph):
        y = more()
    x.fill_(5)
    host.add_(2)
    y.zero_()
    graph.replay()
    expected = value_of(numbers, 5) + torch.arange(2.0, 10.0)
    torch.testing.assert_close(x.cpu(), expected)
    assert torch.equal(y, torch.nn.functional.gelu(x @ x.reshape(8, 1)))


def test_unknown_mechanism(without: Callable[[str], None]) -> None:
    without("shared_blits,no_such_thing")
    with pytest.raises(
        RuntimeError, match='PYTORCH_MPS_GRAPH_WITHOUT is "shared_blits,no_such_thing", but must be names'
    ):
        mps.MPSGraph().capture_begin()
    without("")
    x = torch.ones(4, device="mps")
    with mps.graph(mps.MPSGraph()):
        x + 1


def test_views_that_are_gone_are_not_looked_at() -> None:
    """2: what can't be noticed any more costs a replay nothing; what can is noticed."""
    x = torch.rand(3000, 4, device="mps")
    graph = mps.MPSGraph()
    with mps.graph(graph):
        rows = [x[i] for i in range(3000)]
        x.mul_(2)
    del rows
    graph.replay()
    x.resize_(30000, 4)
    with pytest.raises(RuntimeError, match="another storage"):
        graph.replay()


def test_kernels_become_one_call(indirect: None, without: Callable[[str], None]) -> None:
    block, x, numbers = chain(1000)
    graph = captured(block)
    calls = calls_of(graph)
    assert calls[EXECUTE] == 1 and calls[KERNELS] == 1
    # The one pipeline is used once by itself, for GPUs before the ninth family.
    assert calls[DISPATCH] == 0 and calls[PIPELINE] == 1
    x.fill_(2)
    graph.replay()
    torch.testing.assert_close(x.cpu(), value_of(numbers, 2))
    without("indirect_commands")
    direct = calls_of(captured(block))
    assert direct[EXECUTE] == 0 and direct[DISPATCH] == 1000
    assert sum(direct.values()) >= 50 * sum(calls.values())


def test_replays_of_indirect_commands_in_flight(indirect: None) -> None:
    """Each replay waits for the one before, and reads what the host has written since."""
    block, x, numbers = chain(16)
    host, y = torch.zeros(8), torch.zeros(8, device="mps")

    def more() -> None:
        x.copy_(host)
        block()
        y.copy_(x)

    graph = captured(more)
    results = []
    for i in range(8):
        host.fill_(i)
        graph.replay()
        results.append(y.clone())
    for i, result in enumerate(results):
        torch.testing.assert_close(result.cpu(), value_of(numbers, float(i)))


MIXED = """
#include <metal_stdlib>
using namespace metal;
kernel void add(device float* x, device const float* y, uint i [[thread_position_in_grid]]) { x[i] += y[i]; }
kernel void turned(device float* x, threadgroup float* shared [[threadgroup(0)]],
                   uint i [[thread_position_in_threadgroup]], uint n [[threads_per_threadgroup]]) {
  shared[i] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  x[i] = shared[n - 1 - i] * 2;
}
"""


def test_other_work_in_between(indirect: None) -> None:
    """Few kernels in a row, graph runs and copies are encoded as before, and in their order."""
    library = mps._compile_shader(MIXED)
    x, y, z = (torch.arange(8.0, device="mps") + i for i in range(3))

    def block() -> torch.Tensor:
        for _ in range(5):
            library.add(x, y)
            library.add(y, z)
        z.copy_(x)
        library.add(z, y)
        w = torch.nn.functional.gelu(z / 64)
        for _ in range(4):
            library.add(z, w)
        z.zero_()
        for _ in range(4):
            library.add(z, x)
        return w

    block()
    graph = mps.MPSGraph()
    with mps.graph(graph):
        w = block()
    start = [torch.randn(8) for _ in range(3)]
    for tensor, value in zip((x, y, z), start):
        tensor.copy_(value)
    expected_w = block().cpu()
    expected = [tensor.cpu() for tensor in (x, y, z)]
    for tensor, value in zip((x, y, z), start):
        tensor.copy_(value)
    w.zero_()
    mps_simulator.reset_counters()
    graph.replay()
    calls = Counter(mps_simulator.counters())
    assert calls[EXECUTE] == 3 and calls[DISPATCH] == 1
    assert torch.equal(w.cpu(), expected_w)
    for tensor, value in zip((x, y, z), expected):
        assert torch.equal(tensor.cpu(), value)


def test_decoder_with_indirect_commands(indirect: None) -> None:
    from models.language_models import Gpt2

    torch.manual_seed(0)
    model = Gpt2(depth=4, width=64, length=16, words=64).to("mps").eval()
    with torch.no_grad():
        model.start(0)
        model()
        model.start(0)
        graph = mps.MPSGraph()
        with mps.graph(graph):
            logits = model()
        for start in (3, 5):
            model.start(start)
            expected = []
            for _ in range(6):
                expected.append(model().cpu())
            model.start(start)
            for value in expected:
                logits.zero_()
                graph.replay()
                assert torch.equal(logits.cpu(), value)


def test_unknown_mechanism_to_turn_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCH_MPS_GRAPH_WITH", "speed")
    with pytest.raises(RuntimeError, match='PYTORCH_MPS_GRAPH_WITH is "speed", but must be names of buffer_ranges, '):
        mps.MPSGraph().capture_begin()
