"""Times of calls on the simulator while it encodes and does not execute (null mode).

    python -m mps_simulator test/programs/benchmark/simulated_times.py compiled|training

Prints as JSON the µs of calls of a compiled function by the number of its layers, or of a training step.
"""

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
def step() -> float:
    """Wall time of replaying a graph of one step: the least of trials, the work of each finished before the next."""
    x = torch.zeros(16, device="mps")
    graph = _mps.MPSGraph()
    with _mps.graph(graph):
        _y = x + 1
    return min(microseconds({"": graph.replay}, 100, 100, time.perf_counter)[""])


def calls_of_layers(layers: int) -> dict[str, float]:
    """CPU time of eager, a replay by hand, and compiled calls, with two parameters and two operators a layer.

    The least that a compiled call can cost is that of a backend which only replays. Inputs are those of the call
    before, so that nothing is copied to static memory; results are copied out, or stay in the memory of the graph.
    """

    def model() -> torch.nn.Module:
        return torch.nn.Sequential(*(torch.nn.Linear(16, 16) for _ in range(layers))).to("mps").eval()

    def called(**options: Any) -> Callable[[], object]:
        function = torch.compile(model(), **options)
        return lambda: function(x)

    def replaying(_module: torch.fx.GraphModule, _inputs: object) -> Callable[..., tuple[torch.Tensor]]:
        def replay(*_args: object) -> tuple[torch.Tensor]:
            graph.replay()
            return (x,)

        return replay

    x = torch.randn(4, 16, device="mps")
    torch._dynamo.mark_static_address(x)  # type: ignore[attr-defined,unused-ignore]
    eager = model()
    graph = _mps.MPSGraph()
    with _mps.graph(graph):
        _y = eager(x)
    runs: dict[str, Callable[[], object]] = {
        "eager": lambda: eager(x),
        "replay by hand": graph.replay,
        "Dynamo and a replay": called(backend=replaying),
        "compiled": called(backend="mpsgraphs"),
        "compiled, copy_outputs=False": called(backend="mpsgraphs", options={"copy_outputs": False}),
    }
    for run in runs.values():
        for _ in range(3):
            run()
    taken = {name: round(min(values), 1) for name, values in microseconds(runs, 100, 30).items()}
    torch._dynamo.reset()
    return taken


@torch.no_grad()
def compiled() -> dict[int, dict[str, float]]:
    """What a call of a compiled function costs beside a replay by hand, by the number of layers."""
    return {layers: calls_of_layers(layers) for layers in (1, 10, 100)}


def training() -> dict[str, float]:
    """CPU time of a training step of 8 layers with AdamW: eager, with graphed or compiled passes, and as one graph."""
    x, y = torch.randn(32, 64, device="mps"), torch.randn(32, 64, device="mps")

    def new_step(change: Callable[[torch.nn.Module], Any] = lambda model: model) -> Callable[[], object]:
        model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(8))).to("mps")
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=True)
        called = change(model)

        def step() -> None:
            optimizer.zero_grad()
            F.mse_loss(called(x), y).backward()  # type: ignore[no-untyped-call]
            optimizer.step()

        for _ in range(3):
            step()
        return step

    graph = _mps.MPSGraph()
    whole = new_step()
    with _mps.graph(graph):
        whole()
    runs: dict[str, Callable[[], object]] = {
        "eager": new_step(),
        "graphed callable": new_step(lambda model: _mps.make_graphed_callables(model, (x,))),
        "compiled": new_step(lambda model: torch.compile(model, backend="mpsgraphs")),
        "one graph": graph.replay,
    }
    # Autograd's thread would take its time beside this one.
    with torch.autograd.set_multithreading_enabled(False):
        times = microseconds(runs, 20, 20)
    return {name: round(statistics.median(values), 1) for name, values in times.items()}


if __name__ == "__main__":
    functions = {"compiled": compiled, "training": training}
    print(json.dumps(functions[sys.argv[1]]()))
