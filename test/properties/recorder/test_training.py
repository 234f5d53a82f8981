"""Captured training steps leave what eager ones leave, bit for bit: losses, weights, running statistics, momenta and
the generator (promises 2, 19 and 20)."""

import os
from collections.abc import Callable
from functools import cache

import pytest
import torch
import torch.nn.functional as F
from models.classifiers import ResidualNet, VisionTransformer
from models.digits import images_and_labels
from torch import nn, Tensor

STEPS = int(os.environ.get("CAPTURE_TRAINING_STEPS", "40"))
BATCH = 16
# All that a training run leaves behind, by name.
State = dict[str, Tensor]


def conv_net() -> nn.Module:
    """Convolutions with batch norm, on images of which dropout leaves a part."""
    return nn.Sequential(nn.Dropout(0.1), ResidualNet())


def transformer() -> nn.Module:
    """Attention, between dropout and batch norm."""
    return nn.Sequential(nn.Dropout(0.1), VisionTransformer(), nn.BatchNorm1d(10))


OPTIMIZERS: dict[str, Callable[[list[nn.Parameter]], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, fused=False),
    "sgd-fused": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, fused=True),
    "adam": lambda p: torch.optim.Adam(p, lr=3e-3, capturable=True, fused=False),
    "adam-fused": lambda p: torch.optim.Adam(p, lr=3e-3, fused=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=3e-3, capturable=True, fused=False),
    "adamw-fused": lambda p: torch.optim.AdamW(p, lr=3e-3, fused=True),
}


class Run:
    """A model, its optimizer and the memory of one batch."""

    def __init__(self, make: Callable[[], nn.Module], optimizer: str, autocast: bool) -> None:
        torch.manual_seed(0)
        self.model = make().to("mps").train()
        self.optimizer = OPTIMIZERS[optimizer](list(self.model.parameters()))
        self.autocast = autocast
        self.images = torch.zeros(BATCH, 1, 8, 8, device="mps")
        self.labels = torch.zeros(BATCH, dtype=torch.long, device="mps")
        self.loss = torch.zeros((), device="mps")

    def step(self) -> None:
        """One step on the batch in memory."""
        self.optimizer.zero_grad(set_to_none=False)
        with torch.autocast("mps", enabled=self.autocast):
            loss = F.cross_entropy(self.model(self.images), self.labels)
        loss.backward()
        self.optimizer.step()
        self.loss.copy_(loss.detach())

    def train(self, batches: list[tuple[Tensor, Tensor]], captured: bool) -> State:
        """Two steps as they are, which make gradients and momenta; then all others, captured once or not at all."""
        losses = []
        graph: torch.mps.MPSGraph | None = None
        for i, (images, labels) in enumerate(batches):
            self.images.copy_(images)
            self.labels.copy_(labels)
            if not captured or i < 2:
                self.step()
            elif graph is None:
                graph = torch.mps.MPSGraph()
                with torch.mps.graph(graph):
                    self.step()
            else:
                graph.replay()
            losses.append(self.loss.cpu())
        state = {f"loss {i}": loss for i, loss in enumerate(losses)} | {"generator": torch.mps.get_rng_state()}
        state |= {name: value.cpu() for name, value in self.model.state_dict().items()}
        for name, parameter in self.model.named_parameters():
            for kind, entry in self.optimizer.state[parameter].items():
                if isinstance(entry, torch.Tensor):
                    state[f"{kind} of {name}"] = entry.cpu()
        return state


@cache
def batches(steps: int) -> list[tuple[Tensor, Tensor]]:
    images, labels = images_and_labels()
    # One's own: the runs draw from the default one.
    generator = torch.Generator().manual_seed(1)
    chosen = [torch.randint(len(images), (BATCH,), generator=generator) for _ in range(steps)]
    return [(images[c], labels[c]) for c in chosen]


@pytest.mark.parametrize("autocast", [False, True], ids=["float32", "autocast"])
@pytest.mark.parametrize("optimizer", list(OPTIMIZERS))
@pytest.mark.parametrize("model", [conv_net, transformer])
def test_training(model: Callable[[], nn.Module], optimizer: str, autocast: bool) -> None:
    """2, 19, 20."""
    eager = Run(model, optimizer, autocast).train(batches(STEPS), captured=False)
    replayed = Run(model, optimizer, autocast).train(batches(STEPS), captured=True)
    assert replayed.keys() == eager.keys() and any(name.startswith(("exp_avg", "momentum")) for name in eager)
    assert [name for name, value in eager.items() if not torch.equal(replayed[name], value)] == []
    assert eager[f"loss {STEPS - 1}"] < eager["loss 0"]
