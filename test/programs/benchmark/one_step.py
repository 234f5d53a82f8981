"""Wall time of replaying a graph of one step, in a process that does nothing else: prints µs as JSON.

python -m mps_simulator test/programs/benchmark/one_step.py
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmark.simulated_times import microseconds  # noqa: E402

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
    taken = microseconds({"replay": graph.replay}, _REPLAYS, _TRIALS, time.perf_counter)["replay"]
    print(json.dumps(statistics.median(taken)))


if __name__ == "__main__":
    main()
