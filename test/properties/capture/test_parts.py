"""A graph that was replayed inside the capture of another is part of that one, with its checks and its memory."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

import pytest
import torch
from patched import mps


def captured(work: Callable[[], torch.Tensor]) -> tuple[mps.MPSGraph, torch.Tensor]:
    """A graph of the work, and what the work gave."""
    graph = mps.MPSGraph()
    with mps.graph(graph):
        result = work()
    return graph, result


def outer_of(inner: mps.MPSGraph) -> mps.MPSGraph:
    """A graph in whose capture the other is replayed."""
    outer = mps.MPSGraph()
    with mps.graph(outer):
        inner.replay()
    return outer


@pytest.mark.parametrize("drop", [False, True])
def test_status_of_a_part(drop: bool) -> None:
    """7, 21: a singular matrix raises at the next synchronization, also when it is a part that factors it."""
    matrix = torch.eye(3, device="mps")
    inner, _ = captured(lambda: torch.linalg.lu_factor(matrix)[0])
    outer = outer_of(inner)
    if drop:
        del inner
        gc.collect()
    outer.replay()
    torch.mps.synchronize()
    matrix.zero_()
    outer.replay()
    with pytest.raises(RuntimeError, match="torch.mps graph replay: lu_factor"):
        torch.mps.synchronize()
    matrix.fill_diagonal_(1)
    outer.replay()
    torch.mps.synchronize()


@pytest.mark.parametrize("drop", [False, True])
def test_storage_of_a_part(drop: bool) -> None:
    """7, 13: a tensor that only a part uses must have the memory of the capture, too."""
    x = torch.ones(8, device="mps")
    inner, y = captured(lambda: x * 2)
    outer = outer_of(inner)
    if drop:
        del inner
        gc.collect()
    x.fill_(3)
    outer.replay()
    assert y.tolist() == [6.0] * 8
    x.data = torch.ones(8, device="mps")
    with pytest.raises(RuntimeError, match=r"Float tensor of shape \[8\].* another storage"):
        outer.replay()


def test_memory_of_a_part() -> None:
    """7: nobody gets the memory of a part that nobody else holds."""
    total = torch.zeros((), device="mps")

    def sum_up() -> mps.MPSGraph:
        x = torch.ones(1000, device="mps")
        return outer_of(captured(lambda: total.copy_((x * 2).sum()))[0])

    outer = sum_up()
    gc.collect()
    torch.mps.empty_cache()
    # as large as what the part works on, so that it would be put there
    others = [torch.full((1000,), 5.0, device="mps") for _ in range(20)]
    total.zero_()
    outer.replay()
    assert total.item() == 2000
    assert all(bool((other == 5).all()) for other in others)


@pytest.mark.skipif(sys.platform == "darwin", reason="nothing counts the calls to Apple's Metal")
def test_replay_lets_the_gpu_start() -> None:
    """17: what is replayed is committed, whatever the host does next."""
    import mps_simulator

    x = torch.ones(8, device="mps")
    graph, _ = captured(lambda: x * 2)
    torch.mps.synchronize()
    mps_simulator.reset_counters()
    graph.replay()
    assert mps_simulator.counters()["-[MTLCommandBuffer commit]"] == 1
