"""scikit-learn's bundled digits, and classifiers trained on them."""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn, Tensor


def images_and_labels() -> tuple[Tensor, Tensor]:
    """All 1,797 images as (1797, 1, 8, 8) float32 in 0…1, and their classes as (1797,) int64."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    return images, torch.tensor(digits.target, dtype=torch.long)


def batches(images: Tensor, size: int) -> list[tuple[Tensor, int]]:
    """Batches of one shape, each with the number of images that count: the last is filled up with copies."""
    result = []
    for start in range(0, len(images), size):
        batch = images[start : start + size]
        missing = size - len(batch)
        result.append((torch.cat([batch, batch[:1].expand(missing, -1, -1, -1)]), len(batch)))
    return result


def train(model: nn.Module, images: Tensor, labels: Tensor, epochs: int) -> None:
    """Train on the CPU, briefly: enough that the classes mean something."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    model.train()
    for _ in range(epochs):
        for chosen in torch.randperm(len(images)).split(64):  # type: ignore[no-untyped-call]
            optimizer.zero_grad()
            F.cross_entropy(model(images[chosen]), labels[chosen]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    model.eval()
