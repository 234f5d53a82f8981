"""Executables of MPSGraphs live as long as a graph, the cache or the GPU needs them: what the simulator counts."""

import gc
import sys
import time
from collections.abc import Iterator

import pytest
import torch
from replays import captured
from torch import mps

pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="nothing counts Apple's objects")

LIMIT = 2
SHAPES = 60


@pytest.fixture(params=[False, True], ids=["captures", "captures and eager"])
def caching(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether eager work runs as executables, too; the cache is small."""
    mps.executable_cache_clear()
    limit = mps.executable_cache_stats()["limit"]
    mps.set_executable_cache_enabled(request.param)
    mps.set_executable_cache_limit(LIMIT)
    yield request.param
    mps.set_executable_cache_limit(limit)
    mps.set_executable_cache_enabled(False)
    mps.executable_cache_clear()


def alive() -> int:
    """Executables that there are, once the GPU is done and its handlers have run."""
    import mps_simulator

    gc.collect()
    torch.mps.synchronize()
    counts = []
    while len(counts) < 3 or len(set(counts[-3:])) > 1:
        time.sleep(0.01)
        counts.append(mps_simulator.live_objects().get("MPSGraphExecutable", 0))
    return counts[-1]


def capture(length: int) -> None:
    x = torch.ones(length, device="mps")
    graph, y = captured(lambda: (x + 1).exp())
    x.fill_(2)
    graph.replay()
    torch.testing.assert_close(y.cpu(), torch.full((length,), 3.0).exp())


def test_evicted_executables_are_freed(caching: bool) -> None:
    """25, 28: a cache of two keeps two, whether or not eager work uses it."""
    del caching
    before = alive()
    for length in range(1, SHAPES + 1):
        capture(length)
    assert mps.executable_cache_stats()["evictions"] >= SHAPES - LIMIT
    assert alive() - before <= LIMIT


def test_dropped_while_the_gpu_works(caching: bool) -> None:
    """15, 25: neither a graph that is dropped right after its replay nor an eviction takes an executable from the GPU."""
    del caching
    import mps_simulator

    mps_simulator.set_delay(2000, seed=3)
    try:
        results = []
        for length in range(100, 112):
            x = torch.ones(length, device="mps")
            graph, y = captured(lambda x=x: (x @ x) + x)
            x.fill_(2)
            y.zero_()
            graph.replay()
            results.append((length, y))
            del graph
        mps.executable_cache_clear()
        for length, y in results:
            assert y.cpu().tolist() == [4.0 * length + 2] * length
    finally:
        mps_simulator.set_delay(0)
