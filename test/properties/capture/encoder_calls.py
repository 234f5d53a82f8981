"""Draws valid sequences of encoder calls.

A call is a tuple of a code and its numbers, as encoder_driver.mm reads them.
What is drawn is a rough list; `complete` makes a valid sequence of it, so that
a failing example stays valid while it is being shrunk.
"""

from __future__ import annotations

import enum
from typing import Any

from encoder_world import (
    BYTES,
    GRAIN,
    INDIRECT,
    INDIRECT_ENTRIES,
    INPUTS,
    JOURNAL,
    JOURNAL_REGION_BYTES,
    JOURNAL_REGIONS,
    SCRATCH,
)
from hypothesis import strategies as st

Call = tuple[int, ...]


# The same names, in the same order, as in encoder_driver.mm.
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

JOURNAL_SLOT = 0
TARGET_SLOT = 6
SLOTS = 9
# By pipeline, the slots that its kernel reads or writes.
SLOTS_OF_PIPELINE = ((0, 1, 2), (0, 1, 2, 3, 4, 5), (0, 6))
USES_THREADGROUP_MEMORY = (False, True, False)

_small = st.integers(0, 63)
_size = st.tuples(st.integers(1, 5), st.integers(1, 3), st.integers(1, 2))
_group = st.tuples(st.integers(1, 4), st.integers(1, 2), st.integers(1, 2))
_data_buffer = st.sampled_from((*INPUTS, *SCRATCH))
_resource = st.integers(0, INDIRECT)


def _flat(code: Code, *parts: Any) -> st.SearchStrategy[Call]:
    """Draws the parts, each a number or tuple of numbers, into one call."""

    def join(drawn: tuple[Any, ...]) -> Call:
        numbers: list[int] = [int(code)]
        for part in drawn:
            numbers += part if isinstance(part, (tuple, list)) else (part,)
        return tuple(numbers)

    return st.tuples(*parts).map(join)


# Slots, buffers and offsets are raw numbers here, which `complete` maps.
_slot = st.integers(0, SLOTS - 1)
_dispatch: st.SearchStrategy[Call] = st.one_of(
    _flat(Code.DISPATCH_THREADS, _size, _group),
    _flat(Code.DISPATCH_THREADGROUPS, _size, _group),
    _flat(Code.DISPATCH_INDIRECT, _small, _group),
)
_pairs = st.lists(st.tuples(_small, _small), min_size=1, max_size=4)
_resources = st.lists(_resource, min_size=1, max_size=3)
_binding: st.SearchStrategy[Call] = st.one_of(
    _flat(Code.PIPELINE, st.integers(0, len(SLOTS_OF_PIPELINE) - 1)),
    _flat(Code.BUFFER, _slot, _small, _small),
    _flat(Code.BUFFER_OFFSET, _slot, _small),
    _flat(Code.BUFFERS, _slot, _pairs.map(lambda pairs: tuple(number for pair in pairs for number in pair))),
    _flat(Code.BYTES, st.integers(1, 5), st.sampled_from((4, 5, 16, 31, 32, 33, 255, 256, 4096)), st.integers(0, 3)),
    _flat(Code.THREADGROUP_MEMORY, st.integers(0, 1), st.sampled_from((16, 32, 256, 4096))),
)
_other: st.SearchStrategy[Call] = st.one_of(
    _flat(Code.USE_RESOURCE, _resource, st.integers(1, 3)),
    _flat(Code.USE_RESOURCES, st.integers(1, 3), _resources.map(tuple)),
    _flat(Code.BARRIER_SCOPE, st.just(1)),
    _flat(Code.BARRIER_RESOURCES, st.just(0), _resources.map(tuple)),
    _flat(Code.END_ENCODER),
    _flat(Code.COMMIT),
    _flat(Code.COPY, _data_buffer, _small, st.sampled_from(SCRATCH), _small, st.integers(1, 4)),
    _flat(Code.FILL, st.sampled_from(SCRATCH), _small, st.integers(1, 4), st.integers(0, 255)),
    _flat(Code.PUSH_GROUP),
    _flat(Code.POP_GROUP),
    _flat(Code.SIGNPOST),
    _flat(Code.LABEL),
)


def _offset(raw: int, length: int = GRAIN) -> int:
    return raw * GRAIN % (BYTES - length + GRAIN)


class _Completion:
    """Tracks what an encoder holds and adds the calls that a dispatch needs."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._restart()

    def _restart(self) -> None:
        self._pipeline: int | None = None
        # by slot: True for a buffer, False for bytes
        self._bound: dict[int, bool] = {}
        self._has_threadgroup_memory = False
        self._groups = 0

    def _add(self, *call: int) -> None:
        self.calls.append(call)

    def _binding(self, slot: int, buffer: int, offset: int) -> tuple[int, int]:
        """Maps raw numbers to a buffer, or none, and an offset that fit the slot."""
        if slot == JOURNAL_SLOT:
            return JOURNAL, offset % JOURNAL_REGIONS * JOURNAL_REGION_BYTES
        if slot == TARGET_SLOT:
            return SCRATCH[buffer % len(SCRATCH)], _offset(offset)
        data = (*INPUTS, *SCRATCH, -1)
        chosen = data[buffer % len(data)]
        return chosen, 0 if chosen < 0 else _offset(offset)

    def _bind(self, slot: int, buffer: int) -> None:
        if buffer < 0:
            self._bound.pop(slot, None)
        else:
            self._bound[slot] = True

    def _close_groups(self) -> None:
        for _ in range(self._groups):
            self._add(Code.POP_GROUP)
        self._groups = 0

    def _prepare_dispatch(self) -> None:
        if self._pipeline is None:
            self.take((Code.PIPELINE, 0))
        pipeline = self._pipeline or 0
        for slot in SLOTS_OF_PIPELINE[pipeline]:
            if slot not in self._bound:
                self.take((Code.BUFFER, slot, slot % len(INPUTS), slot))
        if USES_THREADGROUP_MEMORY[pipeline] and not self._has_threadgroup_memory:
            self.take((Code.THREADGROUP_MEMORY, 0, 16))

    def take(self, call: Call) -> None:
        """Adds a rough call: as it is, mapped to what is valid, or not at all."""
        code, numbers = Code(call[0]), call[1:]
        if code in DISPATCHES:
            self._prepare_dispatch()
        if code in ENDS:
            self._close_groups()
            self._restart()
        if code is Code.PIPELINE:
            self._pipeline = numbers[0]
            self._add(*call)
        elif code is Code.BUFFER:
            slot = numbers[0]
            buffer, offset = self._binding(*numbers)
            self._bind(slot, buffer)
            self._add(code, slot, buffer, offset)
        elif code is Code.BUFFER_OFFSET:
            slots = sorted(slot for slot, holds_buffer in self._bound.items() if holds_buffer)
            if slots:
                slot = slots[numbers[0] % len(slots)]
                self._add(code, slot, self._binding(slot, 0, numbers[1])[1])
        elif code is Code.BUFFERS:
            slot, raws = numbers[0], numbers[1:]
            joined: list[int] = []
            for i in range(0, len(raws), 2):
                buffer, offset = self._binding(slot + i // 2, raws[i], raws[i + 1])
                self._bind(slot + i // 2, buffer)
                joined += (buffer, offset)
            self._add(code, slot, *joined)
        elif code is Code.BYTES:
            self._bound[numbers[0]] = False
            self._add(*call)
        elif code is Code.THREADGROUP_MEMORY:
            self._has_threadgroup_memory |= numbers[0] == 0
            self._add(*call)
        elif code is Code.DISPATCH_INDIRECT:
            self._add(code, INDIRECT, numbers[0] % INDIRECT_ENTRIES * 12, *numbers[1:])
        elif code is Code.COPY:
            source, source_offset, destination, destination_offset, grains = numbers
            length = grains * GRAIN
            if source != destination:
                offsets = _offset(source_offset, length), _offset(destination_offset, length)
                self._add(code, source, offsets[0], destination, offsets[1], length)
        elif code is Code.FILL:
            buffer, offset, grains, value = numbers
            self._add(code, buffer, _offset(offset, grains * GRAIN), grains * GRAIN, value)
        elif code is Code.PUSH_GROUP:
            self._groups += 1
            self._add(*call)
        elif code is Code.POP_GROUP:
            if self._groups > 0:
                self._groups -= 1
                self._add(*call)
        else:
            self._add(*call)

    def finish(self) -> list[Call]:
        """Returns the calls; the encoder may be left open, debug groups may not."""
        self._close_groups()
        return self.calls


def complete(rough: list[Call]) -> list[Call]:
    """Returns a valid sequence that is as close to the rough one as can be."""
    completion = _Completion()
    for call in rough:
        completion.take(call)
    return completion.finish()


def count_dispatches(calls: list[Call]) -> int:
    """Returns how many of the calls are dispatches."""
    return sum(call[0] in DISPATCHES for call in calls)


def encoder_calls(max_dispatches: int = 8) -> st.SearchStrategy[list[Call]]:
    """Sequences of encoder calls with at least one dispatch among them."""
    before_dispatch = st.lists(st.one_of(_binding, _binding, _other), max_size=8)
    parts = st.lists(st.tuples(before_dispatch, _dispatch), min_size=1, max_size=max_dispatches)

    def join(drawn: tuple[list[tuple[list[Call], Call]], list[Call]]) -> list[Call]:
        rough = [call for calls, dispatch in drawn[0] for call in (*calls, dispatch)]
        return complete(rough + drawn[1])

    return st.tuples(parts, st.lists(_other, max_size=3)).map(join)
