"""µs of CPU time that a compiled call takes on CUDA, by the number of its layers: what compile.md compares with.

    python test/programs/benchmark/compiled_on_cuda.py > test/programs/benchmark/recorded/cuda_compiled.json

Needs nothing but torch, so that it runs on any machine with a CUDA device.
"""

import json
import time
from collections.abc import Callable
from datetime import date
from typing import Any

import torch

TRIALS = 300


def least(run: Callable[[], object]) -> float:
    """The least of the trials. The GPU is idle before each, because launches wait for a full queue."""
    taken = []
    for _ in range(TRIALS):
        torch.cuda.synchronize()
        begin = time.thread_time()
        run()
        taken.append(time.thread_time() - begin)
    return round(min(taken) * 1e6, 1)


@torch.no_grad()
def calls_of_layers(layers: int) -> dict[str, float]:
    """The same modules and inputs as in `simulated_times.calls_of_layers()`."""
    model = torch.nn.Sequential(*(torch.nn.Linear(16, 16) for _ in range(layers))).to("cuda").eval()
    x = torch.randn(4, 16, device="cuda")
    torch._dynamo.mark_static_address(x)  # type: ignore[attr-defined,unused-ignore]
    graph = torch.cuda.CUDAGraph()  # type: ignore[no-untyped-call,unused-ignore]
    for _ in range(3):
        model(x)
    with torch.cuda.graph(graph):
        _y = model(x)
    compiled: Any = torch.compile(model, mode="reduce-overhead")
    runs: dict[str, Callable[[], object]] = {
        "eager": lambda: model(x),
        "replay by hand": graph.replay,
        "compiled": lambda: compiled(x),
    }
    for _ in range(5):  # the first calls compile and capture
        compiled(x)
    times = {name: least(run) for name, run in runs.items()}
    torch._dynamo.reset()
    return times


if __name__ == "__main__":
    machine = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "date": date.today().isoformat()}
    print(json.dumps(machine | {"layers": {layers: calls_of_layers(layers) for layers in (1, 10, 100)}}, indent=1))
