"""Recorded encoder calls are encoded again with the same state, and what is not recorded is refused.

Logging encoders stand in for the device's here: nothing is computed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from encoder_calls import Call, Code, encoder_calls
from encoder_driver import EncoderDriver
from encoder_log import difference, EncoderLog, Event
from hypothesis import given, Phase, settings
from torch import mps

DISPATCH: list[Call] = [
    (Code.PIPELINE, 2),
    (Code.BUFFER, 0, 5, 0),
    (Code.BUFFER, 6, 3, 0),
    (Code.DISPATCH_THREADS, 1, 1, 1, 1, 1, 1),
]

# Methods of MTLComputeCommandEncoder and its parents in Metal 3 that are neither recorded nor without effect on what the
# GPU computes. The driver makes all other calls, so tests fail if one is refused.
REFUSED = (
    "setBuffer:offset:attributeStride:atIndex:",
    "setBuffers:offsets:attributeStrides:withRange:",
    "setBufferOffset:attributeStride:atIndex:",
    "setBytes:length:attributeStride:atIndex:",
    "setVisibleFunctionTable:atBufferIndex:",
    "setVisibleFunctionTables:withBufferRange:",
    "setIntersectionFunctionTable:atBufferIndex:",
    "setIntersectionFunctionTables:withBufferRange:",
    "setAccelerationStructure:atBufferIndex:",
    "setTexture:atIndex:",
    "setTextures:withRange:",
    "setSamplerState:atIndex:",
    "setSamplerStates:withRange:",
    "setSamplerState:lodMinClamp:lodMaxClamp:atIndex:",
    "setSamplerStates:lodMinClamps:lodMaxClamps:withRange:",
    "setImageblockWidth:height:",
    "setStageInRegion:",
    "setStageInRegionWithIndirectBuffer:indirectBufferOffset:",
    "updateFence:",
    "waitForFence:",
    "useHeap:",
    "useHeaps:count:",
    "executeCommandsInBuffer:withRange:",
    "executeCommandsInBuffer:indirectBuffer:indirectBufferOffset:",
    "sampleCountersInBuffer:atSampleIndex:withBarrier:",
    "aSelectorOfTheNextMacOS",
)


@contextmanager
def logging(world: EncoderDriver) -> Iterator[Callable[[], str]]:
    """Logs the block's calls; the yielded function gives the log after it."""
    world.start_log()
    log = ""
    try:
        yield lambda: log
    finally:
        log = world.stop_log()


def capture(calls: list[Call], world: EncoderDriver) -> tuple[Any, str]:
    graph = mps.MPSGraph()
    with logging(world) as log, mps.graph(graph):
        world.run(calls)
    return graph, log()


def replay(graph: Any, world: EncoderDriver) -> EncoderLog:
    with logging(world) as log:
        graph.replay()
    return EncoderLog(log())


def log_directly(calls: list[Call], world: EncoderDriver) -> str:
    with logging(world) as log:
        world.run(calls)
    return log()


def assert_same(direct: list[Event], replayed: list[Event]) -> None:
    for number, (one, other) in enumerate(zip(direct, replayed)):
        assert difference(one, other) is None, f"event {number}: {difference(one, other)}"
    assert len(replayed) == len(direct)


@given(encoder_calls(12))
def test_recording_passes_every_call_on(world: EncoderDriver, calls: list[Call]) -> None:
    """The device gets in a capture what it gets without, call by call; neighbours one by one."""
    assert capture(calls, world)[1] == log_directly(calls, world).replace("buffer_of_range", "buffer")


@given(encoder_calls(12))
def test_replayed_state_equals_direct_state(world: EncoderDriver, calls: list[Call]) -> None:
    direct = EncoderLog(log_directly(calls, world))
    replayed = replay(capture(calls, world)[0], world)
    assert_same(direct.events, replayed.events)


@given(encoder_calls(6), encoder_calls(6))
def test_replayed_state_within_a_capture(world: EncoderDriver, inner: list[Call], before: list[Call]) -> None:
    """A graph replayed inside another capture sets its state there too."""
    inner_graph, inner_log = capture(inner, world)
    outer_graph = mps.MPSGraph()
    with logging(world), mps.graph(outer_graph):
        world.run(before)
        inner_graph.replay()
    direct = EncoderLog(log_directly(before, world)).events + EncoderLog(inner_log).events
    replayed = replay(outer_graph, world)
    assert_same(direct, replayed.events)


@given(encoder_calls(12))
def test_replay_sets_nothing_twice(world: EncoderDriver, calls: list[Call]) -> None:
    """Only differences are encoded, and never more calls than the capture made."""
    assert replay(capture(calls, world)[0], world).redundant == []


@settings(phases=[Phase.generate])
@given(encoder_calls(12))
def test_replay_holds_no_more_threadgroup_memory(world: EncoderDriver, calls: list[Call]) -> None:
    """A length left over from another encoder counts against the limit of 32 KiB."""
    direct = EncoderLog(log_directly(calls, world)).events
    replayed = replay(capture(calls, world)[0], world).events
    for number, (one, other) in enumerate(zip(direct, replayed)):
        lengths = {index: length for index, length in other.threadgroup_memory.items() if length > 0}
        assert lengths == one.threadgroup_memory, f"event {number}"


@pytest.mark.parametrize("selector", REFUSED)
def test_unrecorded_selector_is_refused(world: EncoderDriver, selector: str) -> None:
    """The call reaches the device, and capture_end raises and names it."""
    graph = mps.MPSGraph()
    with logging(world) as log, pytest.raises(RuntimeError) as caught, mps.graph(graph):
        world.run(DISPATCH)
        world.send(selector)
        world.run(DISPATCH)
    assert f"'{selector}'" in str(caught.value)
    events = EncoderLog(log())
    assert events.sent == [selector]
    assert len(events.events) == 2
    with pytest.raises(RuntimeError, match="empty"):
        graph.replay()


def test_first_refusal_is_named(world: EncoderDriver) -> None:
    with logging(world), pytest.raises(RuntimeError, match="'useHeap:'"), mps.graph(mps.MPSGraph()):
        world.send("useHeap:")
        world.send("setTexture:atIndex:")


def test_refusal_does_not_reach_the_next_capture(world: EncoderDriver) -> None:
    with logging(world), pytest.raises(RuntimeError, match="useHeap"), mps.graph(mps.MPSGraph()):
        world.send("useHeap:")
    assert len(replay(capture(DISPATCH, world)[0], world).events) == 1


def test_asking_is_no_call(world: EncoderDriver) -> None:
    """respondsToSelector: gives the device's answer, and does not make a capture fail."""
    unknown = "aSelectorThatNobodyHas"
    graph = mps.MPSGraph()
    with logging(world), mps.graph(graph):
        assert world.responds("dispatchThreads:threadsPerThreadgroup:") and not world.responds(unknown)
        world.run(DISPATCH)
    assert len(replay(graph, world).events) == 1
