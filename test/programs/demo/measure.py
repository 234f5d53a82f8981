"""Captures a case, compares its replays with eager, and measures what a pass costs the CPU."""

from __future__ import annotations

import statistics
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from demo.cases import Case

try:
    import mps_simulator
except ImportError:  # on a Mac there is none, and none is needed
    mps_simulator = None  # type: ignore[assignment]


@dataclass
class Pass:
    """What one pass costs the CPU: seconds (median), and Metal calls where the simulator counts them."""

    seconds: float
    calls: int | None


@dataclass
class Result:
    """One row of the demo's table."""

    name: str
    data: str
    accuracy: float | None
    steps: dict[str, int]
    passes: int
    largest_difference: float
    values_finite: bool
    predictions: int
    predictions_differing: int
    distinct_outputs: int
    eager: Pass
    replay: Pass

    @property
    def equal(self) -> bool:
        """Whether every replay gave exactly what eager gave, on results that mean something."""
        return (
            self.largest_difference == 0
            and self.predictions_differing == 0
            and self.values_finite
            and self.distinct_outputs > 1
        )


def on_simulator() -> bool:
    """Whether the MPS device is the simulated one."""
    return mps_simulator is not None and mps_simulator.is_installed()


def without_gpu_work() -> AbstractContextManager[Any]:
    """On the simulator, what is submitted in the block is encoded and not executed."""
    return mps_simulator.null_mode() if on_simulator() else nullcontext()


def median_seconds(run: Callable[[], object], repeats: int) -> float:
    """What a call costs the CPU, with an idle device before each."""
    seconds = []
    for _ in range(repeats):
        torch.mps.synchronize()
        begin = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begin)
    torch.mps.synchronize()
    return statistics.median(seconds)


def _cost(run: Callable[[], object], repeats: int) -> Pass:
    calls = None
    run()
    torch.mps.synchronize()
    if on_simulator():
        mps_simulator.reset_counters()
        run()
        calls = sum(mps_simulator.counters().values())
    return Pass(median_seconds(run, repeats), calls)


@torch.no_grad()
def measure(case: Case, repeats: int) -> Result:
    """Capture on one input; replay on all others and compare with eager; then measure both."""
    case.prepare()
    graph = torch.mps.MPSGraph()
    with torch.mps.graph(graph):
        output = case.step()

    # eager first, then the replays from the same start: state that a pass leaves behind is part of the comparison
    expected = [case.step()[:count].cpu() for count in case.rounds()]
    replayed = []
    for count in case.rounds():
        graph.replay()
        replayed.append(output[:count].cpu())

    eager_all, replay_all = torch.cat(expected), torch.cat(replayed)
    steps = graph.stats()
    with without_gpu_work():
        case.prepare()
        eager = _cost(case.step, repeats)
        case.prepare()
        replay = _cost(graph.replay, repeats)
    return Result(
        case.name,
        case.data,
        case.accuracy,
        {kind: steps[kind] for kind in ("kernels", "graph_runs", "copies", "fills")},
        len(expected),
        (eager_all - replay_all).abs().max().item(),
        bool(eager_all.isfinite().all()),
        len(eager_all),
        int((eager_all.argmax(-1) != replay_all.argmax(-1)).sum()),
        len(eager_all.unique(dim=0)),
        eager,
        replay,
    )
