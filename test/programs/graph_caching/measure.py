"""Runs a case eagerly without and with the cache and in captures: counts, compares, and measures the CPU."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from demo.measure import median_seconds, without_gpu_work

from graph_caching.cases import Case

CAPTURES = 2
REPLAYS = 2


@dataclass
class Counts:
    """What the cache was asked."""

    hits: int
    misses: int


@dataclass
class Result:
    """One row of the table."""

    kind: str
    parameters: str
    calls: int
    eager: Counts
    captures: Counts
    equal: bool
    # seconds of CPU per call, by the way it was run
    seconds: dict[str, float]


class _Counter:
    """Counts what the cache is asked in a block, with eager work using it or not."""

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled
        self.counts = Counts(0, 0)

    def __enter__(self) -> None:
        self._before = torch.mps.executable_cache_stats()
        torch.mps.set_executable_cache_enabled(self._enabled)

    def __exit__(self, *_exception: object) -> None:
        torch.mps.set_executable_cache_enabled(False)
        after = torch.mps.executable_cache_stats()
        self.counts.hits += after["hits"] - self._before["hits"]
        self.counts.misses += after["misses"] - self._before["misses"]


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one.cpu(), other.cpu())


@torch.no_grad()
def measure(case: Case, calls: int, repeats: int) -> Result:
    """Run a case `calls` times on new inputs each way, then measure what a call costs."""
    equal = True
    eager, captures = _Counter(enabled=True), _Counter(enabled=False)
    for _ in range(calls):
        inputs = case.inputs()
        expected = case.call(*inputs)
        with eager:
            got = case.call(*inputs)
        equal &= _same(got, expected)

    graphs = []
    for _ in range(CAPTURES):
        graph = torch.mps.MPSGraph()
        with captures, torch.mps.graph(graph):
            output = case.call(*inputs)
        graphs.append((graph, output))
    for _ in range(REPLAYS):
        for tensor, new in zip(inputs, case.inputs()):
            tensor.copy_(new)
        expected = case.call(*inputs)
        for graph, output in graphs:
            with captures:
                graph.replay()
            equal &= _same(output, expected)

    def call() -> None:
        case.call(*inputs)

    seconds = {}
    with without_gpu_work():
        seconds["eager"] = median_seconds(call, repeats)
        torch.mps.set_executable_cache_enabled(True)
        seconds["eager_cached"] = median_seconds(call, repeats)
        torch.mps.set_executable_cache_enabled(False)
        seconds["replay"] = median_seconds(graphs[0][0].replay, repeats)
    return Result(case.kind, case.parameters, calls, eager.counts, captures.counts, equal, seconds)
