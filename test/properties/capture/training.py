"""Training steps on the digits, captured or not, and the state that they leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn, Tensor

BATCH = 16


class ConvNet(nn.Module):
    """Convolutions with batch norm, dropout before the head."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Flatten(),
            nn.Dropout(0.25),
            nn.Linear(16 * 16, 10),
        )

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(images)


class Transformer(nn.Module):
    """Rows of the image as tokens: attention with dropout, and batch norm over the pooled features."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Linear(8, width)
        self.positions = nn.Parameter(torch.randn(1, 8, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm = nn.BatchNorm1d(width)
        self.head = nn.Linear(width, 10)

    def forward(self, images: Tensor) -> Tensor:
        x = self.encoder(self.embedding(images.squeeze(1)) + self.positions)
        return self.head(self.norm(x.mean(1)))


OPTIMIZERS: dict[str, Callable[[list[nn.Parameter]], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, fused=False),
    "sgd-fused": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, fused=True),
    "adam": lambda p: torch.optim.Adam(p, lr=3e-3, capturable=True, fused=False),
    "adam-fused": lambda p: torch.optim.Adam(p, lr=3e-3, fused=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=3e-3, capturable=True, fused=False),
    "adamw-fused": lambda p: torch.optim.AdamW(p, lr=3e-3, fused=True),
}


@dataclass
class State:
    """All that a training run leaves behind."""

    losses: list[Tensor]
    model: dict[str, Tensor]
    optimizer: list[Tensor]
    generator: Tensor


class Run:
    """A model, its optimizer and the memory of one batch."""

    def __init__(self, kind: type[nn.Module], optimizer: str, autocast: bool) -> None:
        torch.manual_seed(0)
        self.model = kind().to("mps").train()
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

    def train(self, batches: list[tuple[Tensor, Tensor]], captured: bool, link: bool = False) -> State:
        """Two steps as they are, which make gradients and momenta; then all others, captured once or not at all."""
        losses = []
        graph: torch.mps.MPSGraph | None = None
        for i, (images, labels) in enumerate(batches):
            self.images.copy_(images)
            self.labels.copy_(labels)
            if not captured or i < 2:
                self.step()
            elif graph is None:
                graph = torch.mps.MPSGraph(link=link)
                with torch.mps.graph(graph):
                    self.step()
            else:
                graph.replay()
            losses.append(self.loss.cpu())
        entries = [e for p in self.model.parameters() for e in self.optimizer.state[p].values()]
        return State(
            losses,
            {name: value.cpu() for name, value in self.model.state_dict().items()},
            [e.cpu() for e in entries if isinstance(e, torch.Tensor)],
            torch.mps.get_rng_state(),
        )
