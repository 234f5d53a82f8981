"""What encoder calls compute on the device is the same directly, captured and replayed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from encoder_calls import Call, Code, count_dispatches, encoder_calls
from encoder_world import EncoderWorld, JOURNAL, journal_length
from hypothesis import given
from hypothesis import strategies as st
from memory import allocated, returns_to
from patched import mps
from replays import captured

Contents = list["np.ndarray[tuple[int], np.dtype[np.uint8]]"]

seeds = st.integers(0, 1000)


def run_directly(calls: Sequence[Call], world: EncoderWorld, seed: int) -> Contents:
    world.load(seed)
    world.run(calls)
    contents = world.read()
    assert world.dispatches() == count_dispatches(list(calls))
    return contents


def capture(calls: Iterable[Call], world: EncoderWorld) -> Any:
    return captured(lambda: world.run(calls))[0]


def assert_same(actual: Contents, expected: Contents, when: str) -> None:
    for number, (one, other) in enumerate(zip(actual, expected)):
        wrong = np.flatnonzero(one != other)
        assert wrong.size == 0, (
            f"{when}: buffer {number} differs at bytes {wrong[:8]} and {max(wrong.size - 8, 0)} more"
        )


@given(encoder_calls(), seeds, st.lists(seeds, min_size=1, max_size=3), encoder_calls(3), st.booleans())
def test_replay_equals_direct_run(
    world: EncoderWorld,
    other_world: EncoderWorld,
    calls: list[Call],
    first_seed: int,
    later_seeds: list[int],
    between: list[Call],
    before_capture: bool,
) -> None:
    """Also when eager calls on other buffers left an encoder open, with its state."""
    expected = run_directly(calls, world, first_seed)
    world.load(first_seed)
    other_world.load(0)
    if before_capture:
        other_world.run(between)
    graph = capture(calls, world)
    assert_same(world.read(), expected, "in the capture")
    for seed in later_seeds:
        expected = run_directly(calls, world, seed)
        world.load(seed)
        other_world.run(between)
        graph.replay()
        assert_same(world.read(), expected, "in a replay")


@given(encoder_calls(4), encoder_calls(4), encoder_calls(4), seeds, seeds)
def test_replay_within_a_capture(
    world: EncoderWorld, inner: list[Call], before: list[Call], after: list[Call], first_seed: int, seed: int
) -> None:
    """The inner graph's steps become part of the outer one, with their own state only."""
    inner_graph = capture(inner, world)
    world.load(first_seed)
    outer_graph = mps.MPSGraph()
    with mps.graph(outer_graph):
        world.run(before)
        inner_graph.replay()
        world.run([(Code.END_ENCODER,), *after])
    captured = world.read()
    joined = [*before, (Code.END_ENCODER,), *inner, (Code.END_ENCODER,), *after]
    assert_same(captured, run_directly(joined, world, first_seed), "in the capture")
    inner_graph.reset()
    expected = run_directly(joined, world, seed)
    world.load(seed)
    outer_graph.replay()
    assert_same(world.read(), expected, "in a replay")


@given(
    st.lists(encoder_calls(4), min_size=2, max_size=3),
    st.lists(st.integers(0, 2), min_size=1, max_size=6),
    seeds,
)
def test_graphs_replayed_in_any_order(
    world: EncoderWorld, programs: list[list[Call]], order: list[int], seed: int
) -> None:
    """Replays follow each other on the same buffers without a wait between them."""
    graphs = [capture(calls, world) for calls in programs]
    order = [number % len(programs) for number in order]
    joined: list[Call] = []
    for number in order:
        joined += [*programs[number], (Code.END_ENCODER,)]
    expected = run_directly(joined, world, seed)
    world.load(seed)
    for number in order:
        graphs[number].replay()
    assert_same(world.read(), expected, "in a replay")


@given(encoder_calls(), st.integers(0, 60), seeds)
def test_aborted_capture_leaves_no_trace(world: EncoderWorld, calls: list[Call], kept: int, seed: int) -> None:
    expected = run_directly(calls, world, seed)
    world.load(seed)
    graph = mps.MPSGraph()
    with pytest.raises(KeyboardInterrupt), mps.graph(graph):
        # an open debug group would be the encoder's error, not the capture's
        cut = [call for call in calls[:kept] if call[0] not in (Code.PUSH_GROUP, Code.POP_GROUP)]
        world.run(cut)
        raise KeyboardInterrupt
    with pytest.raises(RuntimeError, match="empty"):
        graph.replay()
    assert_same(run_directly(calls, world, seed), expected, "after an aborted capture")
    graph = capture(calls, world)
    world.load(seed)
    graph.replay()
    assert_same(world.read(), expected, "in a replay")


@given(encoder_calls(4))
def test_graph_keeps_the_buffers_it_binds(calls: list[Call]) -> None:
    """A replay after all else let go of the memory writes to nobody else's."""
    before = allocated()
    own = EncoderWorld()
    own.load(0)
    graph = capture(calls, own)
    journal = own.tensors.pop(JOURNAL)
    sizes = [tensor.numel() for tensor in own.tensors]
    del own
    # all zero: an indirect dispatch that reads this instead runs nothing
    others = [torch.zeros(size, dtype=torch.uint8, device="mps") for size in sizes]
    journal.zero_()
    graph.replay()
    assert journal_length(journal) == count_dispatches(calls)
    for other in others:
        assert not bool(other.cpu().any())
    del journal, others, other
    graph.reset()
    assert returns_to(before)


def test_threadgroup_memory_does_not_add_up_over_encoders(world: EncoderWorld) -> None:
    """Each encoder is within the limit of 32 KiB, and so must be the one of the replay."""
    bound: list[Call] = [(Code.PIPELINE, 2), (Code.BUFFER, 0, 5, 0), (Code.BUFFER, 6, 3, 0)]
    dispatch: Call = (Code.DISPATCH_THREADS, 1, 1, 1, 1, 1, 1)
    first: list[Call] = [*bound, (Code.THREADGROUP_MEMORY, 0, 32768), dispatch, (Code.END_ENCODER,)]
    second: list[Call] = [*bound, (Code.THREADGROUP_MEMORY, 1, 16384), dispatch]
    expected = run_directly(first + second, world, 0)
    graph = capture(first + second, world)
    world.load(0)
    graph.replay()
    assert_same(world.read(), expected, "in a replay")
