"""Chains of small operators, in which hardly anything but dispatch costs time."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from models.layers import Added
from torch import nn, Tensor

from benchmark.case import Case, Input, new_input, NotRun

ACTIVATIONS = (F.relu, F.gelu, F.silu, torch.tanh, torch.sigmoid)


def _chain(x: Input, functions: Sequence[Callable[[Tensor], Tensor]]) -> Case:
    """One after the other."""

    def step() -> tuple[Tensor]:
        y = x.tensor
        for function in functions:
            y = function(y)
        return (y,)

    return Case(step, [x])


def build_activations(device: str, *, length: int) -> Case:
    """`length` activation functions one after the other on (1, 1024)."""
    return _chain(new_input((1, 1024), device), [ACTIVATIONS[i % len(ACTIVATIONS)] for i in range(length)])


def build_linears(device: str, *, length: int, width: int, norm: bool = False) -> Case:
    """`length` linear layers with ReLU on (1, width), with layer norm in front if `norm`."""

    def layer() -> nn.Module:
        return Added(*([nn.LayerNorm(width)] if norm else []), nn.Linear(width, width), nn.ReLU()).to(device)

    return _chain(new_input((1, width), device), [layer() for _ in range(length)])


def build_kernels(device: str, *, length: int) -> Case:
    """`length` runs of a custom Metal kernel on (1024,), each on the result of the one before."""
    if device != "mps":
        raise NotRun("a chain of Metal kernels needs an MPS device")
    source = """
        #include <metal_stdlib>
        kernel void advance(device const float* x [[buffer(0)]], device float* y [[buffer(1)]],
                            constant float& factor [[buffer(2)]], uint i [[thread_position_in_grid]]) {
          y[i] = x[i] * factor + 1.0f;
        }"""
    compile_shader = getattr(torch.mps, "compile_shader", None) or torch.mps._compile_shader
    library = compile_shader(source)

    def advance(y: Tensor, result: Tensor) -> Tensor:
        library.advance(y, result, 0.5)
        return result

    buffers = [torch.empty(1024, device=device) for _ in range(2)]
    return _chain(new_input((1024,), device), [partial(advance, result=buffers[i % 2]) for i in range(length)])


def build_matmuls(device: str, *, length: int, width: int) -> Case:
    """`length` products of (width, width) matrices."""
    weight = (torch.randn(width, width) / width**0.5).to(device)
    return _chain(new_input((width, width), device), [lambda y: y @ weight] * length)
