"""Draws valid sequences of encoder calls.

A call is a tuple of a code and its numbers, as encoder_driver.mm reads them.
What is drawn is a rough list; `complete` makes a valid sequence of it, so that
a failing example stays valid while it is being shrunk.
"""

import enum
from typing import Any

from encoder_driver import BYTES, DATA, INDIRECT, PIPELINES
from hypothesis import strategies as st

Call = tuple[int, ...]


# In the order of what encoder_driver.mm performs.
Code = enum.IntEnum(
    "Code",
    "PIPELINE BUFFER BUFFER_OFFSET BUFFERS BYTES THREADGROUP_MEMORY USE_RESOURCE USE_RESOURCES BARRIER_SCOPE "
    "BARRIER_RESOURCES DISPATCH_THREADS DISPATCH_THREADGROUPS DISPATCH_INDIRECT END_ENCODER COPY FILL PUSH_GROUP "
    "POP_GROUP SIGNPOST LABEL COMMIT",
    start=0,
)

DISPATCHES = (Code.DISPATCH_THREADS, Code.DISPATCH_THREADGROUPS, Code.DISPATCH_INDIRECT)
# These end the compute encoder: the next one starts with nothing bound.
ENDS = (Code.END_ENCODER, Code.COPY, Code.FILL, Code.COMMIT)

NOTHING = (-1, 0)
# Few, and all hold something at the first dispatch of an encoder: what follows binds them again.
SLOTS = 4
_LONGEST = BYTES // 4


def _flat(code: Code, *parts: Any) -> st.SearchStrategy[Call]:
    """Draws the parts, each a number or tuple of numbers, into one call."""

    def join(drawn: tuple[Any, ...]) -> Call:
        numbers: list[int] = [int(code)]
        for part in drawn:
            numbers += part if isinstance(part, (tuple, list)) else (part,)
        return tuple(numbers)

    return st.tuples(*parts).map(join)


_size = st.tuples(st.integers(1, 5), st.integers(1, 3), st.integers(1, 2))
_group = st.tuples(st.integers(1, 4), st.integers(1, 2), st.integers(1, 2))
_slot = st.integers(0, SLOTS - 1)
_data_buffer = st.sampled_from(DATA)
_offset = st.integers(0, BYTES // 32 - 4).map(lambda grains: grains * 32)
_length = st.sampled_from((32, 64, _LONGEST))
_buffer = st.one_of(st.tuples(_data_buffer, _offset), st.just(NOTHING))
_buffers = st.lists(_buffer, min_size=1, max_size=4).map(lambda pairs: tuple(n for pair in pairs for n in pair))
_resource = st.integers(0, INDIRECT)
_resources = st.lists(_resource, min_size=1, max_size=3).map(tuple)
_dispatch: st.SearchStrategy[Call] = st.one_of(
    _flat(Code.DISPATCH_THREADS, _size, _group),
    _flat(Code.DISPATCH_THREADGROUPS, _size, _group),
    _flat(Code.DISPATCH_INDIRECT, st.just(INDIRECT), st.integers(0, 7).map(lambda entry: entry * 12), _group),
)
_binding: st.SearchStrategy[Call] = st.one_of(
    _flat(Code.PIPELINE, st.integers(0, PIPELINES - 1)),
    _flat(Code.BUFFER, _slot, _buffer),
    _flat(Code.BUFFER_OFFSET, _slot, _offset),
    _flat(Code.BUFFERS, _slot, _buffers),
    _flat(Code.BYTES, _slot, st.sampled_from((4, 5, 16, 31, 32, 33, 255, 256, 4096)), st.integers(0, 3)),
    _flat(Code.THREADGROUP_MEMORY, st.integers(0, 1), st.sampled_from((16, 32, 256, 4096))),
)
_other: st.SearchStrategy[Call] = st.one_of(
    _flat(Code.USE_RESOURCE, _resource, st.integers(1, 3)),
    _flat(Code.USE_RESOURCES, st.integers(1, 3), _resources),
    _flat(Code.BARRIER_SCOPE, st.just(1)),
    _flat(Code.BARRIER_RESOURCES, st.just(0), _resources),
    _flat(Code.COPY, _data_buffer, _offset, _data_buffer, _offset, _length),
    _flat(Code.FILL, _data_buffer, _offset, _length, st.integers(0, 255)),
    st.sampled_from((Code.END_ENCODER, Code.COMMIT, Code.PUSH_GROUP, Code.POP_GROUP, Code.SIGNPOST, Code.LABEL)).map(
        lambda code: (int(code),)
    ),
)


def complete(rough: list[Call]) -> list[Call]:
    """Returns a valid sequence that is as close to the rough one as can be."""
    calls: list[Call] = []
    has_pipeline, groups = False, 0
    # whether what a slot holds is a buffer, of which the offset can be set
    bound: dict[int, bool] = {}
    for call in rough:
        code, numbers = Code(call[0]), call[1:]
        if code in ENDS:
            calls += [(Code.POP_GROUP,)] * groups
            has_pipeline, groups = False, 0
            bound.clear()
        if code is Code.PIPELINE:
            has_pipeline = True
        elif code in DISPATCHES and not has_pipeline:
            unbound = [slot for slot in range(SLOTS) if slot not in bound]
            calls += [(Code.PIPELINE, 0), *((Code.BUFFER, slot, slot, 0) for slot in unbound)]
            bound |= dict.fromkeys(unbound, True)
            has_pipeline = True
        elif code in (Code.BUFFER, Code.BUFFERS):
            for slot, buffer in enumerate(numbers[1::2], numbers[0]):
                bound[slot] = buffer >= 0
        elif code is Code.BYTES:
            bound[numbers[0]] = False
        is_valid = not (
            (code is Code.BUFFER_OFFSET and not bound.get(numbers[0]))
            or (code is Code.COPY and numbers[0] == numbers[2])
            or (code is Code.POP_GROUP and not groups)
        )
        if is_valid:
            groups += (code is Code.PUSH_GROUP) - (code is Code.POP_GROUP)
            calls.append(call)
    # the encoder may be left open, debug groups may not
    return [*calls, *[(Code.POP_GROUP,)] * groups]


def encoder_calls(max_dispatches: int = 8) -> st.SearchStrategy[list[Call]]:
    """Sequences of encoder calls with at least one dispatch among them."""
    before_dispatch = st.lists(st.one_of(_binding, _binding, _other), max_size=8)
    parts = st.lists(st.tuples(before_dispatch, _dispatch), min_size=1, max_size=max_dispatches)

    def join(drawn: tuple[list[tuple[list[Call], Call]], list[Call]]) -> list[Call]:
        rough = [call for calls, dispatch in drawn[0] for call in (*calls, dispatch)]
        return complete(rough + drawn[1])

    return st.tuples(parts, st.lists(_other, max_size=3)).map(join)
