"""Programs for `callgrind.run`, which count instructions on the simulator in null mode.

    python -m mps_simulator test/programs/benchmark/counted.py operators|checks|captures MODEL

The base's build runs `operators`, too, so that program uses nothing of the series.
"""

import gc
import sys
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn, Tensor

from benchmark.callgrind import counted, start
from benchmark.case import Case, new_input, Replay
from benchmark.simulated_times import not_executed
from mps_simulator import autorelease_pool

# Calls of an operator that are counted together, and how often anything is counted.
CALLS, REPEATS = 60, 3
# Tensors that a graph of `checks` watches.
WATCHED = 1_000


def _operators() -> dict[str, Callable[[], object]]:
    """One of each kind: kernels, MPSGraphs with and without numbers and views, copies, fills, allocations, views."""
    x, y = torch.randn(16, 64, device="mps"), torch.randn(16, 64, device="mps")
    square, weight = torch.randn(64, 64, device="mps"), torch.randn(64, 64, device="mps")
    bias, index = torch.randn(64, device="mps"), torch.arange(8, device="mps")
    host = torch.randn(16, 64)
    integers = torch.arange(1024, device="mps", dtype=torch.int32).view(16, 64)
    return {
        "erfinv": lambda: x.erfinv(),
        "fmax": lambda: torch.fmax(x, y),
        "bitwise_and": lambda: integers & integers,
        "index": lambda: x[index],
        "add": lambda: x + y,
        "multiply by a number": lambda: x * 1.5,
        "linear": lambda: F.linear(x, weight, bias),
        "matmul": lambda: x @ weight,
        "softmax": lambda: x.softmax(-1),
        "layer norm": lambda: F.layer_norm(x, (64,), bias, bias),
        "gelu": lambda: F.gelu(x),
        "add a transposed tensor": lambda: square.t() + square,
        "add slices": lambda: x[2:] + x[2:],
        "copy": lambda: y.copy_(x),
        "copy a transposed tensor": lambda: square.t().contiguous(),
        "zero_": lambda: y.zero_(),
        "fill_": lambda: y.fill_(1.5),
        "copy from the CPU": lambda: y.copy_(host),
        "copy from the CPU, non_blocking": lambda: y.copy_(host, non_blocking=True),
        "copy to the CPU": lambda: y.cpu(),
        "item": lambda: bias[0].item(),
        "empty": lambda: torch.empty(16, 64, device="mps"),
        "view": lambda: x.view(-1),
    }


def _run(call: Callable[[], object], calls: int) -> None:
    with autorelease_pool():
        for _ in range(calls):
            call()
    torch.mps.synchronize()


@torch.no_grad()
def operators() -> None:
    """Count `CALLS` calls of each operator."""
    all_operators = _operators()
    with not_executed():
        for call in all_operators.values():
            _run(call, 30)
        gc.disable()
        start()
        for name, call in all_operators.items():
            for _ in range(REPEATS):
                _run(call, 10)
                with autorelease_pool(), counted(name):
                    for _ in range(CALLS):
                        call()


class _Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.second(F.gelu(self.first(self.norm(x))))
        return x + y


def _blocks() -> Case:
    model, x = nn.Sequential(*(_Block(64) for _ in range(24))).to("mps").eval(), new_input((16, 64), "mps")
    return Case(lambda: (model(x.tensor),), [x])


def captures(model: str) -> None:
    """Count eager passes and captures of a model."""
    from benchmark.families.demo import build_decoder
    from benchmark.modes import in_step, mps

    case = _blocks() if model == "24 blocks" else build_decoder("mps", layers=16)

    def capture() -> object:
        graph = mps.MPSGraph()
        with mps.graph(graph, empty_cache=False):
            outputs = case.step()
        return graph, outputs

    if case.start:
        case.start()
    case.fill(1)
    with in_step(case), not_executed():
        # eager first: captures change the allocator's pools, and with them the instructions of each allocation
        for kind, call in (("eager", case.step), ("capture", capture)):
            _run(call, 3)
            gc.collect()
            gc.disable()
            start()
            for _ in range(REPEATS):
                with autorelease_pool():
                    with counted(kind):
                        kept = call()
                    torch.mps.synchronize()
                    del kept


def watching(kind: str) -> Replay:
    """A replay ahead that runs the same kernels on one tensor, on many tensors of one storage, or on many storages."""
    from benchmark.modes import capture

    x = torch.zeros(4, device="mps")
    many: dict[str, Callable[[], list[Tensor]]] = {
        "one tensor": lambda: [torch.zeros(4, device="mps")] * WATCHED,
        "one storage": lambda: list(torch.zeros(WATCHED, 4, device="mps").unbind()),
        "storages": lambda: [torch.zeros(4, device="mps") for _ in range(WATCHED)],
    }
    tensors = many[kind]()

    def step() -> tuple[Tensor, ...]:
        for tensor in tensors:
            torch.fmax(x, tensor)
        return (x, *tensors)  # kept by the replay, which raises if one is gone

    _run(lambda: torch.fmax(x, x), 2)
    return capture(Case(step), ahead=True)


@torch.no_grad()
def checks() -> None:
    """Count a replay that watches many tensors, and one that watches many storages."""
    with not_executed():
        for kind in ("one storage", "storages"):
            replay = watching(kind)
            assert replay.wait_until_ready
            start()
            for _ in range(REPEATS):
                _run(replay.run, 1)
                replay.wait_until_ready()
                with autorelease_pool(), counted(kind):
                    replay.run()


if __name__ == "__main__":
    programs: dict[str, Callable[..., None]] = {"operators": operators, "checks": checks, "captures": captures}
    programs[sys.argv[1]](*sys.argv[2:])
