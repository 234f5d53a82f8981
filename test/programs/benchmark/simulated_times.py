"""Times of calls on the simulator while it encodes and does not execute (null mode).

    python -m mps_simulator test/programs/benchmark/simulated_times.py operators|step

A process of its own prints the µs of each eager operator, or of a replay of one step, as JSON. For the operators nothing
of the series is used, so that the base's build runs it, too.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F

import mps_simulator

# Annotations of the wheel know nothing of what the series adds.
_mps: Any = torch.mps


@contextmanager
def not_executed() -> Iterator[None]:
    """In the block work is encoded, neither executed nor validated; at its end the device is idle."""
    with mps_simulator.null_mode(), mps_simulator.validation(False):
        yield
        torch.mps.synchronize()


def microseconds(
    runs: Mapping[str, Callable[[], object]],
    calls: int,
    trials: int,
    clock: Callable[[], float] = time.thread_time,
) -> dict[str, list[float]]:
    """µs of a call in each trial; the runs take turns, so that what else the machine does hits all alike."""
    taken: dict[str, list[float]] = {name: [] for name in runs}
    with not_executed():
        for _ in range(trials):
            for name, run in runs.items():
                torch.mps.synchronize()
                with mps_simulator.autorelease_pool():
                    begin = clock()
                    for _ in range(calls):
                        run()
                    taken[name].append((clock() - begin) / calls * 1e6)
    return taken


@torch.no_grad()
def operators() -> dict[str, float]:
    """CPU time of eager operators by name: MPSGraphs with and without scalars, kernels, copies, views."""
    x, y = torch.randn(16, 64, device="mps"), torch.randn(16, 64, device="mps")
    weight, bias = torch.randn(64, 64, device="mps"), torch.randn(64, device="mps")
    index = torch.arange(8, device="mps")
    runs: dict[str, Callable[[], object]] = {
        "add": lambda: x + y,
        "multiply by a number": lambda: x * 1.5,
        "linear": lambda: F.linear(x, weight, bias),
        "softmax": lambda: x.softmax(-1),
        "layer norm": lambda: F.layer_norm(x, (64,), bias, bias),
        "gelu": lambda: F.gelu(x),
        "index": lambda: x[index],
        "copy": lambda: y.copy_(x),
    }
    for run in runs.values():
        run()
    torch.mps.synchronize()
    # The least of the trials: what disturbs one only adds to it.
    return {name: min(taken) for name, taken in microseconds(runs, calls=200, trials=15).items()}


@torch.no_grad()
def step() -> float:
    """Wall time of replaying a graph of one step: the median of trials, the work of each finished before the next."""
    x = torch.zeros(16, device="mps")
    graph = _mps.MPSGraph()
    with _mps.graph(graph):
        _y = x + 1
    return statistics.median(microseconds({"": graph.replay}, 100, 30, time.perf_counter)[""])


if __name__ == "__main__":
    print(json.dumps({"operators": operators, "step": step}[sys.argv[1]]()))
