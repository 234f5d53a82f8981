"""Captures of blocks, the calls of which their replays consist, and whether replays do what eager does."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import mps


def captured(block: Callable[[], Any], **options: Any) -> tuple[Any, Any]:
    """A graph of a block, and what the block gave."""
    graph = mps.MPSGraph()
    with mps.graph(graph, **options):
        result = block()
    return graph, result


def calls_in(run: Callable[[], object]) -> Counter[str]:
    """The calls that a run makes on an idle device."""
    import mps_simulator

    mps.synchronize()
    mps_simulator.reset_counters()
    run()
    return Counter(mps_simulator.counters())


def calls_of(block: Callable[[], object]) -> Counter[str]:
    """The calls of one replay of a block that ran before, not of the first one."""
    block()
    graph, _ = captured(block)
    graph.replay()
    return calls_in(graph.replay)


def check(block: Callable[[], object], tensors: list[torch.Tensor], seed: int = 0) -> None:
    """A replay of the block does to other values what eager does."""
    block()
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
