"""Wall time of replaying a graph of one step, in a process that does nothing else: prints µs as JSON.

python -m mps_simulator test/benchmark/one_step.py
"""

from __future__ import annotations

import json
import statistics
import time
from typing import Any

import torch

import mps_simulator

_REPLAYS = 100
_TRIALS = 30
# Annotations of the wheel know nothing of what the series adds.
_mps: Any = torch.mps


def main() -> None:
    """Median of trials, the work of each finished before the next."""
    x = torch.zeros(16, device="mps")
    graph = _mps.MPSGraph()
    with torch.no_grad(), _mps.graph(graph):
        _y = x + 1
    taken = []
    with mps_simulator.null_mode(), mps_simulator.validation(False):
        for _ in range(_TRIALS):
            torch.mps.synchronize()
            with mps_simulator.autorelease_pool():
                begin = time.perf_counter()
                for _ in range(_REPLAYS):
                    graph.replay()
                taken.append((time.perf_counter() - begin) / _REPLAYS)
    print(json.dumps(statistics.median(taken) * 1e6))


if __name__ == "__main__":
    main()
