"""In null mode a replay costs what the backend does, and nothing that the simulator does on other threads."""

from __future__ import annotations

import resource
from typing import Any

import pytest
import torch

import mps_simulator

REPLAYS = 500
# The base's has no graphs, as far as a type checker can see.
mps: Any = torch.mps


@pytest.mark.skipif(not hasattr(mps, "MPSGraph"), reason="this checkout has no graph capture")
def test_replays_wake_no_thread() -> None:
    a = torch.randn(8, 8, device="mps")
    graph = mps.MPSGraph()
    with mps.graph(graph):
        a.add_(1).mul_(0.5)
    with mps_simulator.null_mode():
        # The first ones start threads.
        for _ in range(10):
            graph.replay()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
        for _ in range(REPLAYS):
            graph.replay()
        switches = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - before
        torch.mps.synchronize()
    # Each has a completion handler; waking the thread of these is one for each replay.
    assert switches < REPLAYS / 2
