"""A replay sends an encoder the calls that it got in the block, and what is not recorded is refused.

Logging encoders stand in for the device's here: nothing is computed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from encoder_calls import Call, Code, encoder_calls
from encoder_driver import EncoderDriver
from hypothesis import given
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


BLITS = ("copy", "fill")
WITHOUT_EFFECT = ("label", "signpost", "push_group", "pop_group", "end")


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


def replay(graph: Any, world: EncoderDriver) -> list[list[str]]:
    with logging(world) as log:
        graph.replay()
    return encoders(log())


def log_directly(calls: list[Call], world: EncoderDriver) -> str:
    with logging(world) as log:
        world.run(calls)
    return log()


def encoders(log: str) -> list[list[str]]:
    """The calls of each encoder. Those without effect are left out, and encoders that got no others."""
    parts: list[list[str]] = [[]]
    for line in log.splitlines():
        name = line.split()[0]
        if name == "encoder":
            parts.append([])
        elif name in BLITS:
            parts += [[line], []]
        elif name not in WITHOUT_EFFECT:
            parts[-1].append(line)
    return [part for part in parts if part]


def dispatches(parts: list[list[str]]) -> int:
    return sum(line.startswith("threads ") for part in parts for line in part)


def test_logs_are_told_apart() -> None:
    assert encoders("encoder\nuse 1 1\nuse 2 1\n") != encoders("encoder\nuse 1 1\nencoder\nuse 2 1\n")
    assert encoders("encoder\nuse 1 1\n") != encoders("encoder\nuse 1 2\n")
    assert encoders("encoder\nlabel\nencoder\nuse 1 1\nend\n") == encoders("encoder\nuse 1 1\n")


@given(encoder_calls(12))
def test_recording_passes_every_call_on(world: EncoderDriver, calls: list[Call]) -> None:
    """The device gets in a capture what it gets without, call by call."""
    assert capture(calls, world)[1] == log_directly(calls, world)


@given(encoder_calls(12))
def test_replay_sends_the_same_calls(world: EncoderDriver, calls: list[Call]) -> None:
    expected = encoders(log_directly(calls, world))
    graph, _ = capture(calls, world)
    for _ in range(2):
        assert replay(graph, world) == expected


@given(encoder_calls(6), encoder_calls(6))
def test_replay_within_a_capture(world: EncoderDriver, inner: list[Call], before: list[Call]) -> None:
    inner_graph, inner_log = capture(inner, world)
    outer_graph = mps.MPSGraph()
    with logging(world), mps.graph(outer_graph):
        world.run(before)
        inner_graph.replay()
    assert replay(outer_graph, world) == encoders(log_directly(before, world)) + encoders(inner_log)


@pytest.mark.parametrize("selector", REFUSED)
def test_unrecorded_selector_is_refused(world: EncoderDriver, selector: str) -> None:
    """The call reaches the device, and capture_end raises and names it."""
    graph = mps.MPSGraph()
    with logging(world) as log, pytest.raises(RuntimeError) as caught, mps.graph(graph):
        world.run(DISPATCH)
        world.send(selector)
        world.run(DISPATCH)
    assert f"'{selector}'" in str(caught.value)
    assert f"sent {selector}" in log().splitlines()
    assert dispatches(encoders(log())) == 2
    with pytest.raises(RuntimeError, match="empty"):
        graph.replay()


def test_first_refusal_is_named(world: EncoderDriver) -> None:
    with logging(world), pytest.raises(RuntimeError, match="'useHeap:'"), mps.graph(mps.MPSGraph()):
        world.send("useHeap:")
        world.send("setTexture:atIndex:")


def test_refusal_does_not_reach_the_next_capture(world: EncoderDriver) -> None:
    with logging(world), pytest.raises(RuntimeError, match="useHeap"), mps.graph(mps.MPSGraph()):
        world.send("useHeap:")
    assert dispatches(replay(capture(DISPATCH, world)[0], world)) == 1


def test_asking_is_no_call(world: EncoderDriver) -> None:
    """respondsToSelector: gives the device's answer, and does not make a capture fail."""
    unknown = "aSelectorThatNobodyHas"
    graph = mps.MPSGraph()
    with logging(world), mps.graph(graph):
        assert world.responds("dispatchThreads:threadsPerThreadgroup:") and not world.responds(unknown)
        world.run(DISPATCH)
    assert dispatches(replay(graph, world)) == 1
