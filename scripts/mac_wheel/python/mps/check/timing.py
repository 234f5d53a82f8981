"""Times of eager and replay for ten configurations."""

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

# Of the passes, so many of the fastest and as many of the slowest are left out.
TRIMMED = 0.1
WARM_UP = 3

Step = Callable[[], torch.Tensor]


def _model(module: nn.Module, *shape: int) -> Step:
    module = module.to("mps").requires_grad_(False)
    x = torch.randn(*shape, device="mps")
    return lambda: module(x)


def _mlp(width: int, depth: int, batch: int) -> Step:
    layers = [nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(depth)]
    return _model(nn.Sequential(*layers).eval(), batch, width)


def _transformer(width: int, depth: int, length: int) -> Step:
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, dropout=0.0)
    # the fast path would be one operator
    model = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False).train()
    return _model(model, 1, length, width)


def _convolutions(depth: int, size: int) -> Step:
    layers = [nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()) for _ in range(depth)]
    return _model(nn.Sequential(*layers).eval(), 1, 16, size, size)


def _chain(length: int) -> Step:
    x = torch.randn(256, device="mps")

    def run() -> torch.Tensor:
        y = x
        for _ in range(length):
            y = torch.fmax(y, x)
        return y

    return run


def _training(width: int, depth: int) -> Step:
    model = nn.Sequential(*[nn.Linear(width, width) for _ in range(depth)]).to("mps")
    x = torch.randn(16, width, device="mps")

    def run() -> torch.Tensor:
        loss = F.mse_loss(model(x), x)
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters(), gradients):
                parameter.sub_(gradient, alpha=1e-3)
        return loss.detach()

    return run


def _products(size: int, count: int) -> Step:
    a = torch.randn(size, size, device="mps") / size

    def run() -> torch.Tensor:
        y = a
        for _ in range(count):
            y = y @ a
        return y

    return run


# Names and what makes a pass; the last two keep the GPU busy, so that a replay gains little.
CONFIGURATIONS: dict[str, Callable[[], Step]] = {
    "MLP, 4 layers of 64, batch 16": lambda: _mlp(64, 4, 16),
    "MLP, 32 layers of 64, batch 16": lambda: _mlp(64, 32, 16),
    "transformer, 2 layers of 64, 16 tokens": lambda: _transformer(64, 2, 16),
    "transformer, 12 layers of 128, 16 tokens": lambda: _transformer(128, 12, 16),
    "8 convolutions, 16 channels, 16×16": lambda: _convolutions(8, 16),
    "32 convolutions, 16 channels, 8×8": lambda: _convolutions(32, 8),
    "chain of 200 kernels of 256 elements": lambda: _chain(200),
    "training step, 6 layers of 64": lambda: _training(64, 6),
    "4 products of 512×512": lambda: _products(512, 4),
    "2 products of 1024×1024": lambda: _products(1024, 2),
}


def _mean(seconds: list[float]) -> float:
    kept = sorted(seconds)
    cut = int(len(kept) * TRIMMED)
    kept = kept[cut : len(kept) - cut]
    return sum(kept) / len(kept)


def measure_step(step: Callable[[], Any], passes: int) -> dict[str, float]:
    """Time a step, after warm-up passes.

    Returns:
        Trimmed means over the passes, in seconds: ``wall`` until the device is done, ``submitted`` until the call returns,
        and ``cpu``, the time that this thread computed until then.
    """
    taken: dict[str, list[float]] = {"wall": [], "submitted": [], "cpu": []}
    for number in range(WARM_UP + passes):
        torch.mps.synchronize()
        began, used = time.perf_counter(), time.thread_time()
        step()
        submitted, computed = time.perf_counter() - began, time.thread_time() - used
        torch.mps.synchronize()
        if number >= WARM_UP:
            taken["wall"].append(time.perf_counter() - began)
            taken["submitted"].append(submitted)
            taken["cpu"].append(computed)
    return {name: _mean(seconds) for name, seconds in taken.items()}


def steps_of(graph: Any) -> int:
    """Return how many steps a replay has."""
    stats = graph.stats()
    return sum(stats[kind] for kind in ("kernels", "graph_runs", "copies", "fills", "kernel_objects"))


def measure(name: str, passes: int) -> dict[str, Any]:
    """Time one configuration.

    Returns:
        ``name``; ``eager`` and ``replay``, each as of :func:`measure_step`; ``steps`` of the graph.
    """
    mps: Any = torch.mps
    torch.manual_seed(0)
    step = CONFIGURATIONS[name]()
    eager = measure_step(step, passes)
    graph = mps.MPSGraph()
    with mps.graph(graph):
        step()
    return {"name": name, "eager": eager, "replay": measure_step(graph.replay, passes), "steps": steps_of(graph)}
