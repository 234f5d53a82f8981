"""A case for each kind of work that a capture records, and for each kind of use."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from .comparison import Case, Tensors


def _random(*shapes: tuple[int, ...]) -> Callable[[], Tensors]:
    """Inputs of these shapes, float32, drawn from the normal distribution."""
    return lambda: [torch.randn(shape) for shape in shapes]


def _from_the_host(x: torch.Tensor) -> torch.Tensor:
    return x + _HOST.to("mps")


_HOST = torch.arange(16.0)


def _in_place(cache: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    cache[:, 2:4] = new
    cache.mul_(0.5)
    return cache.sum(1)


def _custom_kernel() -> Callable[[torch.Tensor], torch.Tensor]:
    library: Any = torch.mps._compile_shader(
        "#include <metal_stdlib>\n"
        "kernel void twice_and_one(device float* out, constant float* x, uint i [[thread_position_in_grid]]) {\n"
        "  out[i] = 2 * x[i] + 1;\n"
        "}\n"
    )

    def run(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        library.twice_and_one(out, x)
        return out

    return run


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def _training(weight: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> Tensors:
    parameter = weight.detach().requires_grad_()
    loss = F.mse_loss(F.gelu(F.linear(x, parameter)), y)
    (gradient,) = torch.autograd.grad(loss, parameter)
    weight.sub_(gradient, alpha=0.1)
    return [loss.detach(), gradient]


def _nested() -> Callable[[torch.Tensor], torch.Tensor]:
    mps: Any = torch.mps
    inner = mps.MPSGraph()
    x = torch.zeros(8, 8, device="mps")
    with mps.graph(inner):
        y = (x @ x).relu()

    def run(value: torch.Tensor) -> torch.Tensor:
        x.copy_(value)
        inner.replay()
        return y + 1

    return run


def _half() -> Tensors:
    return [torch.randn(8, 16).half(), torch.randn(16, 8).half()]


def _integers() -> Tensors:
    return [torch.randint(-100, 100, (32,)), torch.randint(1, 100, (32,))]


def cases() -> list[Case]:
    """Return the cases; modules draw their weights from the CPU's generator."""
    convolution = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(2)
    )
    convolution = convolution.to("mps").eval().requires_grad_(False)
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0)
    layer = layer.to("mps").train().requires_grad_(False)
    # the device computes the same thing twice with the same bits, but for kernels that add atomically
    return [
        Case(
            "Metal kernels", _random((64,), (64,)), lambda a, b: torch.fmax(a, b) * torch.copysign(a, b), ("kernels",)
        ),
        Case("MPSGraph runs", _random((8, 16), (16, 4)), lambda a, b: (a @ b).softmax(-1), ("graph_runs",)),
        Case("copies", _random((32,)), lambda a: [a.clone(), a.view(4, 8)[1:3].clone()], ("copies",)),
        Case("fills", _random((32,)), lambda a: torch.zeros_like(a).add_(a), ("fills",)),
        Case("kernel objects", _random((6, 6)), lambda a: list(torch.linalg.lu_factor(a)), ("kernel_objects",)),
        Case("copies from the host", lambda: [_HOST.normal_() * 1], _from_the_host, ("host_refreshes",)),
        Case("random numbers", _random((64,)), lambda a: [torch.rand_like(a), F.dropout(a, 0.5)]),
        Case("a kernel of one's own", _random((100,)), _custom_kernel(), ("kernels",)),
        Case("updates in place", _random((4, 8), (4, 2)), _in_place),
        Case("convolutions", _random((2, 3, 16, 16)), convolution),
        Case("attention", _random((1, 2, 8, 16), (1, 2, 8, 16), (1, 2, 8, 16)), _attention),
        Case("a transformer layer", _random((2, 8, 32)), layer),
        Case("a training step", _random((4, 8), (16, 8), (16, 4)), _training),
        Case("half precision", _half, lambda a, b: F.silu(a @ b)),
        Case("integers", _integers, lambda a, b: [a // b, a & b, torch.cumsum(a, 0)]),
        Case(
            "indexing",
            lambda: [torch.randn(10, 4), torch.randint(0, 10, (6,))],
            lambda a, i: [a[i], a.index_select(0, i)],
        ),
        Case("a graph inside a graph", _random((8, 8)), _nested()),
    ]
