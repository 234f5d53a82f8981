"""Captured training steps leave what eager ones leave, bit for bit: losses, weights, running statistics, momenta and
the generator (promises 2, 19 and 20)."""

from __future__ import annotations

import os
from functools import cache, lru_cache

import pytest
import torch
from models.digits import images_and_labels
from torch import nn, Tensor
from training import BATCH, ConvNet, OPTIMIZERS, Run, State, Transformer

STEPS = int(os.environ.get("CAPTURE_TRAINING_STEPS", "40"))


@cache
def batches(steps: int) -> list[tuple[Tensor, Tensor]]:
    images, labels = images_and_labels()
    # One's own: the runs draw from the default one.
    generator = torch.Generator().manual_seed(1)
    chosen = [torch.randint(len(images), (BATCH,), generator=generator) for _ in range(steps)]
    return [(images[c], labels[c]) for c in chosen]


# The linked run is compared with the same one.
@lru_cache(maxsize=1)
def trained_eagerly(model: type[nn.Module], optimizer: str, autocast: bool) -> State:
    return Run(model, optimizer, autocast).train(batches(STEPS), captured=False)


def assert_same(a: State, b: State) -> None:
    assert torch.equal(torch.stack(a.losses), torch.stack(b.losses))
    assert a.model.keys() == b.model.keys()
    for name, value in a.model.items():
        assert torch.equal(value, b.model[name]), name
    assert len(a.optimizer) == len(b.optimizer) > 0
    assert all(torch.equal(x, y) for x, y in zip(a.optimizer, b.optimizer))
    assert torch.equal(a.generator, b.generator)


@pytest.mark.parametrize("link", [False, True], ids=["", "linked"])
@pytest.mark.parametrize("autocast", [False, True], ids=["float32", "autocast"])
@pytest.mark.parametrize("optimizer", list(OPTIMIZERS))
@pytest.mark.parametrize("model", [ConvNet, Transformer])
def test_training(model: type[nn.Module], optimizer: str, autocast: bool, link: bool) -> None:
    """2, 19, 20, 26: with the graph runs linked, too."""
    eager = trained_eagerly(model, optimizer, autocast)
    replayed = Run(model, optimizer, autocast).train(batches(STEPS), captured=True, link=link)
    assert_same(replayed, eager)
    assert eager.losses[-1] < eager.losses[0]


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.NAdam, torch.optim.Adagrad])
def test_steps_counted_on_the_host_raise(kind: type[torch.optim.Optimizer]) -> None:
    """A replay would correct the bias as in the captured step, every time."""
    weight = nn.Parameter(torch.ones(4, device="mps"))
    optimizer = kind([weight], lr=0.1)
    weight.grad = torch.ones_like(weight)
    match = f"{kind.__name__}.step.. counts its steps on the host"
    with pytest.raises(RuntimeError, match=match), torch.mps.graph_capture():
        optimizer.step()
    optimizer.step()
    assert weight.cpu()[0] < 1
