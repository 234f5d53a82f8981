"""What the encoder tests compare by tells one state from another."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from encoder_log import difference, EncoderLog, Event

DISPATCH = Event(
    "threads",
    (8, 1, 1, 4, 1, 1),
    pipeline=1,
    bindings={0: ("buffer", 2, 16), 1: ("bytes", 4, 99)},
    threadgroup_memory={0: 64},
    resources=frozenset({(3, 1)}),
    barrier=True,
)
# The same after work of another encoder, of which nothing is in the way.
JOINED = replace(
    DISPATCH,
    bindings=DISPATCH.bindings | {2: ("buffer", 5, 0)},
    resources=DISPATCH.resources | {(4, 2)},
    threadgroup_memory=DISPATCH.threadgroup_memory | {1: 32},
)


@pytest.mark.parametrize("replayed", [DISPATCH, JOINED, replace(DISPATCH, barrier=False, first_of_encoder=True)])
def test_same(replayed: Event) -> None:
    assert difference(DISPATCH, replayed) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda event: replace(event, kind="threadgroups"),
        lambda event: replace(event, numbers=(9, 1, 1, 4, 1, 1)),
        lambda event: replace(event, pipeline=2),
        lambda event: replace(event, pipeline=None),
        lambda event: replace(event, bindings=event.bindings | {0: ("buffer", 2, 0)}),
        lambda event: replace(event, bindings=event.bindings | {0: ("buffer", 3, 16)}),
        lambda event: replace(event, bindings=event.bindings | {1: ("bytes", 4, 98)}),
        lambda event: replace(event, bindings={0: event.bindings[0]}),
        lambda event: replace(event, threadgroup_memory={0: 32}),
        lambda event: replace(event, threadgroup_memory={}),
        lambda event: replace(event, resources=frozenset()),
        lambda event: replace(event, resources=frozenset({(3, 2)})),
        lambda event: replace(event, barrier=False),
    ],
)
def test_different(change: Callable[[Event], Event]) -> None:
    assert difference(DISPATCH, change(DISPATCH)) is not None
    assert difference(DISPATCH, change(JOINED)) is not None


def test_barrier_too_many() -> None:
    assert difference(replace(DISPATCH, barrier=False), DISPATCH) is not None


@pytest.mark.parametrize(
    "twice",
    ["pipeline 1", "buffer 0 2 16", "buffer 0 2 32", "bytes 1 4 99", "threadgroup_memory 64 0", "use 3 1"],
)
def test_call_that_changes_nothing_is_redundant(twice: str) -> None:
    once = "pipeline 1\nbuffer 0 2 16\nbytes 1 4 99\nthreadgroup_memory 64 0\nuse 3 1\n"
    assert EncoderLog(once).redundant == []
    assert len(EncoderLog(once + twice).redundant) == 1
