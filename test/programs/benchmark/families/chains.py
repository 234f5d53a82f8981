"""Chains of small operators, in which hardly anything but dispatch costs time."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn, Tensor

from benchmark.case import Case, new_input, NotRun

ACTIVATIONS = (F.relu, F.gelu, F.silu, torch.tanh, torch.sigmoid)


def build_activations(device: str, *, length: int) -> Case:
    """`length` activation functions one after the other on (1, 1024)."""
    x = new_input((1, 1024), device)

    def step() -> tuple[Tensor]:
        y = x.tensor
        for i in range(length):
            y = ACTIVATIONS[i % len(ACTIVATIONS)](y)
        return (y,)

    return Case(step, [x])


def build_linears(device: str, *, length: int, width: int, norm: bool = False) -> Case:
    """`length` linear layers with ReLU on (1, width), with layer norm in front if `norm`."""
    layers = nn.ModuleList(nn.Linear(width, width) for _ in range(length)).to(device)
    norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(length if norm else 0)).to(device)
    x = new_input((1, width), device)

    def step() -> tuple[Tensor]:
        y = x.tensor
        for i, layer in enumerate(layers):
            y = y + F.relu(layer(norms[i](y) if norm else y))
        return (y,)

    return Case(step, [x])


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
    x = new_input((1024,), device)
    buffers = [torch.empty(1024, device=device) for _ in range(2)]

    def step() -> tuple[Tensor]:
        y = x.tensor
        for i in range(length):
            library.advance(y, buffers[i % 2], 0.5)
            y = buffers[i % 2]
        return (y,)

    return Case(step, [x])


def build_matmuls(device: str, *, length: int, width: int) -> Case:
    """`length` products of (width, width) matrices."""
    x = new_input((width, width), device)
    weight = (torch.randn(width, width) / width**0.5).to(device)

    def step() -> tuple[Tensor]:
        y = x.tensor
        for _ in range(length):
            y = y @ weight
        return (y,)

    return Case(step, [x])
