"""CPU time of eager operators, in whichever build of the backend this runs on: prints µs by operator as JSON.

    python -m mps_simulator test/benchmark/eager_operators.py

Nothing of the series is used, so that the base's build runs it, too.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F

import mps_simulator

_CALLS = 200
_TRIALS = 15


def operators() -> dict[str, Callable[[], object]]:
    """Calls by name: MPSGraphs with and without scalars, kernels, copies, views."""
    x, y = torch.randn(16, 64, device="mps"), torch.randn(16, 64, device="mps")
    weight, bias = torch.randn(64, 64, device="mps"), torch.randn(64, device="mps")
    index = torch.arange(8, device="mps")
    return {
        "add": lambda: x + y,
        "multiply by a number": lambda: x * 1.5,
        "linear": lambda: F.linear(x, weight, bias),
        "softmax": lambda: x.softmax(-1),
        "layer norm": lambda: F.layer_norm(x, (64,), bias, bias),
        "gelu": lambda: F.gelu(x),
        "index": lambda: x[index],
        "copy": lambda: y.copy_(x),
    }


def microseconds(run: Callable[[], object]) -> float:
    """Least of some trials: what disturbs only adds."""
    best = float("inf")
    for _ in range(_TRIALS):
        torch.mps.synchronize()
        with mps_simulator.autorelease_pool():
            begin = time.thread_time()
            for _ in range(_CALLS):
                run()
            best = min(best, time.thread_time() - begin)
    return best / _CALLS * 1e6


def main() -> None:
    """Time them all."""
    with torch.no_grad():
        runs = operators()
        for run in runs.values():
            run()
        torch.mps.synchronize()
        with mps_simulator.null_mode(), mps_simulator.validation(False):
            print(json.dumps({name: microseconds(run) for name, run in runs.items()}))
            torch.mps.synchronize()


if __name__ == "__main__":
    main()
