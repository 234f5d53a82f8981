"""Reads the log of a logging encoder: the state that each dispatch runs with."""

from dataclasses import dataclass, field

# ("buffer", number, offset) or ("bytes", length, hash)
Binding = tuple[str, int, int]

NOTHING: Binding = ("buffer", -1, 0)
_DISPATCHES = ("threads", "threadgroups", "indirect")
_BLITS = ("copy", "fill")
_WITHOUT_EFFECT = ("label", "signpost", "push_group", "pop_group", "end")


@dataclass(frozen=True)
class Event:
    """A dispatch with all that its encoder held, or a blit."""

    kind: str
    numbers: tuple[int, ...]
    pipeline: int | None = None
    bindings: dict[int, Binding] = field(default_factory=dict)
    threadgroup_memory: dict[int, int] = field(default_factory=dict)
    resources: frozenset[tuple[int, int]] = frozenset()
    # since the dispatch before; the start of an encoder is none
    barrier: bool = False
    first_of_encoder: bool = False


class EncoderLog:
    """The events of a log, and the calls that set what was set already."""

    def __init__(self, text: str) -> None:
        self.events: list[Event] = []
        self.redundant: list[str] = []
        self.sent: list[str] = []
        self._restart()
        for line in text.splitlines():
            name, *numbers = line.split()
            if name == "sent":
                self.sent += numbers
            else:
                self._take(name, tuple(int(number) for number in numbers))

    def _restart(self) -> None:
        self._pipeline: int | None = None
        self._bindings: dict[int, Binding] = {}
        self._threadgroup_memory: dict[int, int] = {}
        self._resources: set[tuple[int, int]] = set()
        self._barrier = False
        self._first = True

    def _note_if(self, redundant: bool, name: str, numbers: tuple[int, ...]) -> None:
        if redundant:
            self.redundant.append(f"{name} {numbers} before event {len(self.events)}")

    def _take(self, name: str, numbers: tuple[int, ...]) -> None:
        if name == "encoder":
            self._restart()
        elif name == "pipeline":
            self._note_if(self._pipeline == numbers[0], name, numbers)
            self._pipeline = numbers[0]
        elif name in ("buffer", "buffer_of_range", "bytes"):
            kind = "bytes" if name == "bytes" else "buffer"
            slot, binding = numbers[0], (kind, numbers[1], numbers[2])
            before = self._bindings.get(slot)
            # Of neighbours that are bound by one call, one may have another offset only.
            only_offset = before is not None and name == before[0] == "buffer" and before[1] == binding[1]
            self._note_if(before == binding or only_offset, name, numbers)
            self._bindings[slot] = binding
        elif name == "buffer_offset":
            kind, buffer, before_offset = self._bindings[numbers[0]]
            assert kind == "buffer", f"an offset for bytes: {numbers}"
            self._note_if(before_offset == numbers[1], name, numbers)
            self._bindings[numbers[0]] = (kind, buffer, numbers[1])
        elif name == "threadgroup_memory":
            length, index = numbers
            self._note_if(self._threadgroup_memory.get(index) == length, name, numbers)
            self._threadgroup_memory[index] = length
        elif name == "use":
            use = (numbers[0], numbers[1])
            self._note_if(use in self._resources, name, numbers)
            self._resources.add(use)
        elif name in ("barrier", "barrier_resources"):
            self._barrier = True
        elif name in _DISPATCHES:
            held = dict(self._bindings), dict(self._threadgroup_memory), frozenset(self._resources)
            self.events.append(Event(name, numbers, self._pipeline, *held, self._barrier, self._first))
            self._barrier = self._first = False
        elif name in _BLITS:
            self.events.append(Event(name, numbers))
        else:
            assert name in _WITHOUT_EFFECT, name


def difference(direct: Event, replayed: Event) -> str | None:
    """Says in what a replayed event falls short of the direct one, if it does.

    A replay may join encoders, so it may hold more than the direct run did: what
    was bound in an encoder before. It must not hold less, or anything else.
    """
    if (direct.kind, direct.numbers) != (replayed.kind, replayed.numbers):
        return f"{direct.kind} {direct.numbers} became {replayed.kind} {replayed.numbers}"
    if direct.pipeline != replayed.pipeline:
        return f"pipeline {direct.pipeline} became {replayed.pipeline}"
    for slot, binding in direct.bindings.items():
        if replayed.bindings.get(slot, NOTHING) != binding:
            return f"slot {slot}: {binding} became {replayed.bindings.get(slot)}"
    for index, length in direct.threadgroup_memory.items():
        if replayed.threadgroup_memory.get(index) != length:
            return f"threadgroup memory {index}: {length} became {replayed.threadgroup_memory.get(index)}"
    if not direct.resources <= replayed.resources:
        return f"resources {direct.resources - replayed.resources} are not made resident"
    if direct.barrier and not replayed.barrier and not replayed.first_of_encoder:
        return "a memory barrier is missing"
    if replayed.barrier and not direct.barrier:
        return "a memory barrier is too many"
    return None
