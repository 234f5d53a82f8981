"""Random programs leave with graphs what they leave without: tensors, generators, memory."""

import gc
import os
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from memory import allocated, returns_to
from program_scope import Scope
from program_world import Graph, GraphWorld, World
from tensor_programs import Block, ENDINGS, MISUSES, OTHERS, Program, programs, Step, TENSORS
from torch import mps

pytestmark = [
    # a program may capture views only
    pytest.mark.filterwarnings("ignore:torch.mps graph replay. nothing ran"),
    pytest.mark.filterwarnings("ignore:torch.mps graph capture. the host read device data"),
]

# They are small, and each is about much.
PROGRAMS = int(os.environ.get("CAPTURE_PROGRAMS", max(300, settings().max_examples)))


def perform(kind: type[World], program: Program) -> World:
    """Performs a program and returns the world it leaves; the memory comes back."""
    before = allocated()
    # spares the collections that follow what hypothesis remembers of earlier programs
    gc.freeze()
    world = kind()
    try:
        world.perform(program, before)
    finally:
        world.close()
    assert returns_to(before), f"{kind.__name__} keeps {allocated() - before} bytes"
    return world


def assert_equal(actual: torch.Tensor, expected: torch.Tensor, what: str) -> None:
    """Bit for bit, whatever the bits mean."""
    assert actual.dtype == expected.dtype and actual.shape == expected.shape, what
    one, other = actual.contiguous().numpy().tobytes(), expected.contiguous().numpy().tobytes()
    assert one == other, f"{what}: {actual} in place of {expected}"


def check(program: Program, kind: type[GraphWorld] = GraphWorld) -> World:
    """Compares what a program leaves with graphs and without."""
    eager = perform(World, program)
    world = perform(kind, program)
    for one, other in zip(world.moments, eager.moments, strict=True):
        assert one.seen.keys() == other.seen.keys()
        for name, tensor in one.seen.items():
            assert_equal(tensor, other.seen[name], f"{name} {one.when}")
    for size, most in zip(world.pool_bytes, eager.pool_bytes, strict=True):
        # Blocks are used again, but not split.
        assert size <= 2 * most, f"a pool of {size} bytes where eager's tensors need {most}"
    return world


@settings(max_examples=PROGRAMS)
@given(program=programs)
def test_programs(program: Program) -> None:
    check(program)


LOADS: list[Step] = [("load", i, 15 - i) for i in range(8)]
# Each replay finds other inputs and other random states.
REPLAYS: Program = [
    *LOADS[:4],
    ("hosts", 3, 0),
    ("replay", 0, 0),
    ("check", 0, 0),
    *LOADS[4:],
    ("hosts", 4, 0),
    ("rand", 0, 0),
    ("replay", 0, 0),
    ("replay", 0, 0),
]


@pytest.mark.parametrize("name", [*TENSORS, *OTHERS])
def test_each_operation(name: str) -> None:
    """On each of the first tensors, with another one of them and each generator."""
    steps = [(name, i, j) for i in range(8) for j in (i, i + 3)]
    check([("hosts", 2, 0), Block(tuple(steps), frozen=True), *REPLAYS])


@pytest.mark.parametrize("undone", [False, True])
@pytest.mark.parametrize("ending", ENDINGS)
def test_each_ending(ending: str, undone: bool) -> None:
    """What ran before an exception counts; and the next capture works."""
    steps: tuple[Step, ...] = (("add_", 0, 1), ("rand", 0, 1), ("free", 3, 0), ("scratch", 1, 0), ("backward", 0, 0))
    whole = Block(steps)
    broken = replace(whole, ending=ending, undone=undone)
    world = check([broken, whole, replace(broken, pool=3), whole, *REPLAYS])
    assert world.raised == 2


@pytest.mark.parametrize("name", MISUSES)
def test_each_misuse(name: str) -> None:
    """A block that catches it goes on."""
    # a step names a misuse by two digits
    j, i = divmod(sorted(MISUSES).index(name), 16)
    steps: tuple[Step, ...] = (("add_", 0, 1), ("refused", i, j), ("rand", 0, 1), ("scratch", 1, 0))
    check([Block(steps), *REPLAYS, Block(steps, pool=1), *REPLAYS])


class NoReplay(GraphWorld):
    def replay(self, graph: Graph) -> None:
        pass


class ReplayTwice(GraphWorld):
    def replay(self, graph: Graph) -> None:
        super().replay(graph)
        super().replay(graph)


class SameNumbers(GraphWorld):
    def replay(self, graph: Graph) -> None:
        state = mps.get_rng_state()
        super().replay(graph)
        mps.set_rng_state(state)


class StaleHosts(GraphWorld):
    def _step(self, scope: Scope, step: Step) -> None:
        if step[0] != "hosts":
            super()._step(scope, step)


class Leak(GraphWorld):
    kept: list[torch.Tensor] = []

    def close(self) -> None:
        super().close()
        self.kept.append(torch.ones(1, device="mps"))


class LargePool(GraphWorld):
    def _step(self, scope: Scope, step: Step) -> None:
        if self.underway:
            self._hold = torch.ones(300000, device="mps")
        super()._step(scope, step)


class Hoard(GraphWorld):
    def __init__(self) -> None:
        super().__init__()
        self._kept: list[object] = []

    def release(self, graph: Graph, keep: bool) -> None:
        self._kept.append(graph.work)
        graph.work = None

    def close(self) -> None:
        self._kept.clear()
        super().close()
        self._kept.clear()


FAULTS = [NoReplay, ReplayTwice, SameNumbers, StaleHosts, Leak, LargePool, Hoard]


@pytest.mark.parametrize("kind", FAULTS)
def test_faults_are_noticed(kind: type[GraphWorld]) -> None:
    """The comparison fails for worlds that do one thing wrong."""
    block = Block((("add_", 0, 0), ("rand", 0, 0), ("from_host", 0, 0), ("scratch", 0, 0)))
    program: Program = [block, *REPLAYS, ("reset", 0, 0)]
    check(program)
    with pytest.raises(AssertionError):
        check(program, kind)
    Leak.kept.clear()
