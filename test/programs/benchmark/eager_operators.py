"""CPU time of eager operators, in whichever build of the backend this runs on: prints µs by operator as JSON.

    python -m mps_simulator test/programs/benchmark/eager_operators.py

Nothing of the series is used, so that the base's build runs it, too.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmark.simulated_times import microseconds  # noqa: E402

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


def main() -> None:
    """Time them all."""
    with torch.no_grad():
        runs = operators()
        for run in runs.values():
            run()
        torch.mps.synchronize()
        # The least of the trials: what disturbs one only adds to it.
        print(json.dumps({name: min(taken) for name, taken in microseconds(runs, _CALLS, _TRIALS).items()}))


if __name__ == "__main__":
    main()
