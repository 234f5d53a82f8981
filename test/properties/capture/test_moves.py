"""A tensor from before the capture that gets other storage in the middle of the block ends it."""

from collections.abc import Callable

import pytest
import torch
from torch import mps


def replace(x: torch.Tensor) -> None:
    x.data = torch.zeros(4, device="mps")


def resize(x: torch.Tensor) -> None:
    x.resize_(1 << 16)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("move", [replace, resize])
def test_moved_in_the_block(move: Callable[[torch.Tensor], None], again: bool) -> None:
    """13: whether or not a later step uses it in its new place."""
    x = torch.ones(4, device="mps")
    graph = mps.MPSGraph()
    with pytest.raises(RuntimeError, match="Do that before the capture"), mps.graph(graph):
        x.add_(1)
        move(x)
        if again:
            x.add_(1)
    with pytest.raises(RuntimeError, match="this graph is empty"):
        graph.replay()
