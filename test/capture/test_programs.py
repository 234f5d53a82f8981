"""Random programs with graphs leave everything as they do without: tensors, generators, memory."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from memory import allocated, returns_to
from program_world import EagerWorld, GraphWorld, Moment, World
from tensor_programs import Program, programs

pytestmark = [
    # a program may capture views only
    pytest.mark.filterwarnings("ignore:torch.mps graph replay. nothing ran"),
    pytest.mark.filterwarnings("ignore:torch.mps graph capture. the host read device data"),
]


def perform(kind: type[World], program: Program) -> list[Moment]:
    """Runs a program and returns what could be seen of it; the memory comes back."""
    before = allocated()
    world = kind()
    try:
        world.perform(program)
    finally:
        world.close()
    assert returns_to(before), f"{kind.__name__} keeps {allocated() - before} bytes"
    return world.moments


def assert_equal(actual: torch.Tensor, expected: torch.Tensor, what: str) -> None:
    """Bit for bit, whatever the bits mean."""
    assert actual.dtype == expected.dtype and actual.shape == expected.shape, what
    one, other = actual.contiguous().numpy().tobytes(), expected.contiguous().numpy().tobytes()
    assert one == other, f"{what}: {actual} in place of {expected}"


@given(programs)
def test_programs(program: Program) -> None:
    actual, expected = perform(GraphWorld, program), perform(EagerWorld, program)
    for one, other in zip(actual, expected, strict=True):
        assert one.seen.keys() == other.seen.keys()
        for name, tensor in one.seen.items():
            assert_equal(tensor, other.seen[name], f"{name} {one.when}")
