"""A graph that was replayed inside the capture of another is part of that one, with its checks and its memory."""

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from replays import captured


@pytest.fixture(params=[False, True], ids=["inner graph kept", "inner graph dropped"])
def nested(request: pytest.FixtureRequest) -> Callable[[Callable[[], torch.Tensor]], tuple[Any, torch.Tensor]]:
    """Makes a graph in whose capture one of the work is replayed, and returns it with what the work gave."""
    kept = []

    def make(work: Callable[[], torch.Tensor]) -> tuple[Any, torch.Tensor]:
        inner, result = captured(work)
        outer, _ = captured(inner.replay)
        if not request.param:
            kept.append(inner)
        del inner
        gc.collect()
        return outer, result

    return make


def test_status_of_a_part(nested: Any) -> None:
    """7, 21: a singular matrix raises at the next synchronization, also when it is a part that factors it."""
    matrix = torch.eye(3, device="mps")
    outer, _ = nested(lambda: torch.linalg.lu_factor(matrix)[0])
    outer.replay()
    torch.mps.synchronize()
    matrix.zero_()
    outer.replay()
    with pytest.raises(RuntimeError, match="torch.mps graph replay: lu_factor"):
        torch.mps.synchronize()
    matrix.fill_diagonal_(1)
    outer.replay()
    torch.mps.synchronize()


def test_storage_of_a_part(nested: Any) -> None:
    """7, 13: a tensor that only a part uses must have the memory of the capture, too."""
    x = torch.ones(8, device="mps")
    outer, y = nested(lambda: x * 2)
    x.fill_(3)
    outer.replay()
    assert y.tolist() == [6.0] * 8
    x.data = torch.ones(8, device="mps")
    with pytest.raises(RuntimeError, match=r"Float tensor of shape \[8\].* another storage"):
        outer.replay()


def test_memory_of_a_part() -> None:
    """7: nobody gets the memory of a part that nobody else holds."""
    total = torch.zeros((), device="mps")

    def sum_up() -> Any:
        x = torch.ones(1000, device="mps")
        inner, _ = captured(lambda: total.copy_((x * 2).sum()), check_input_liveness=False)
        return captured(inner.replay)[0]

    outer = sum_up()
    gc.collect()
    torch.mps.empty_cache()
    # as large as what the part works on, so that it would be put there
    others = [torch.full((1000,), 5.0, device="mps") for _ in range(20)]
    total.zero_()
    outer.replay()
    assert total.item() == 2000
    assert all(bool((other == 5).all()) for other in others)
