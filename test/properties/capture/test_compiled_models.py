"""The demo's models through `torch.compile(backend="mpsgraphs")`, on new inputs, against eager."""

from __future__ import annotations

import copy
from typing import Any, TYPE_CHECKING

import pytest
import torch
import torch.nn.functional as F
from models.classifiers import Mlp, ResidualNet, VisionTransformer
from models.language_models import Gpt2, Llama
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CLASSIFIERS = (Mlp, ResidualNet, VisionTransformer)
# Annotations of the wheel know nothing of what the series adds.
mps: Any = torch.mps


@pytest.fixture(autouse=True)
def _reset() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def twins(make: Callable[[], nn.Module], dtype: torch.dtype = torch.float) -> tuple[nn.Module, nn.Module]:
    """Two modules with the same weights."""
    model = make().to("mps", dtype)
    return model, copy.deepcopy(model)


def check_replays(part: str, calls: int) -> None:
    """All calls but the first were replays, in one piece."""
    (report,) = (r for r in mps.compile_report() if r["part"] == part)
    assert (report["pieces"], report["replays"], report["splits"]) == ([1], calls - 1, [])


@pytest.mark.parametrize("dtype", [torch.float, torch.half], ids=["float32", "float16"])
@pytest.mark.parametrize("make", CLASSIFIERS, ids=lambda make: make.__name__)
def test_classifier(make: type[nn.Module], dtype: torch.dtype) -> None:
    """13, 29: one piece, and eager's values."""
    eager, model = twins(make, dtype)
    compiled = torch.compile(model.eval(), backend="mpsgraphs")
    eager.eval()
    with torch.no_grad():
        for _ in range(4):
            images = torch.randn(5, 1, 8, 8, device="mps", dtype=dtype)
            assert torch.equal(compiled(images), eager(images))
    check_replays("inference", 4)


@pytest.mark.parametrize("make", CLASSIFIERS, ids=lambda make: make.__name__)
def test_training(make: type[nn.Module]) -> None:
    """13: weights, running statistics and gradients are eager's after each of five steps."""
    eager, model = twins(make)
    runs = [
        (eager, eager, torch.optim.SGD(eager.parameters(), 0.1, momentum=0.9)),
        (torch.compile(model, backend="mpsgraphs"), model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)),
    ]
    for _ in range(5):
        images = torch.randn(5, 1, 8, 8, device="mps")
        labels = torch.randint(10, (5,), device="mps")
        for call, _owner, optimizer in runs:
            optimizer.zero_grad()
            F.cross_entropy(call(images), labels).backward()
            optimizer.step()
        for (name, one), (_, other) in zip(eager.named_parameters(), model.named_parameters()):
            assert torch.equal(one, other), name
            assert one.grad is not None and other.grad is not None
            assert torch.equal(one.grad, other.grad), name
        for (name, one), (_, other) in zip(eager.named_buffers(), model.named_buffers()):
            assert torch.equal(one, other), name
    for part in ("forward", "backward"):
        check_replays(part, 5)


@pytest.mark.parametrize("temperature", [0.0, 1.0], ids=["greedy", "sampled"])
@pytest.mark.parametrize("make", [Gpt2, Llama], ids=lambda make: make.__name__)
def test_decoding(make: Callable[..., nn.Module], temperature: float) -> None:
    """13: eager's tokens and caches; the tokens, positions and caches are buffers that the function writes."""
    tokens: list[list[int]] = []
    models = twins(lambda: make(temperature=temperature))
    for model, call in zip(models, (models[0], torch.compile(models[1], backend="mpsgraphs"))):
        torch.manual_seed(5)
        drawn = []
        with torch.no_grad():
            model.start(3)  # type: ignore[operator]
            for _ in range(12):
                call()
                drawn.append(int(model.token))  # type: ignore[arg-type]
        tokens.append(drawn)
    assert tokens[0] == tokens[1]
    assert len(set(tokens[0])) > 1
    for (name, one), (_, other) in zip(models[0].named_buffers(), models[1].named_buffers()):
        assert torch.equal(one, other), name
    check_replays("inference", 12)
