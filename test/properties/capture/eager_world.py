"""What eager does where graphs are replayed: it runs the block again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from memory import allocated, Peak
from program_world import Graph, Recording, World
from tensor_programs import Block


class EagerWorld(World):
    """Runs programs without any capture."""

    repeats = True
    # Bytes: the small tensors that operators make for themselves, which nobody sees from outside.
    UNSEEN = 1 << 12
    # Bytes: two statuses of a draw without replacement, which each replay looks at, stay where they are.
    CHECKED = 1 << 10

    @contextmanager
    def recording(self, graph: Graph, block: Block) -> Iterator[None]:
        before = allocated()
        with Peak() as peak:
            yield
        if block.ending == "moved":
            raise RuntimeError(block.ending)
        if block.pool == 0:
            held = max(0, allocated() - before)
            checked = sum(name == "multinomial without replacement" for name, *_ in block.steps) * self.CHECKED
            self.pool_bytes.append(max(0, peak.bytes - before) + held + checked + self.UNSEEN)

    def keep(self, graph: Graph, recording: Recording) -> None:
        graph.work = recording

    def replay(self, graph: Graph) -> None:
        """Runs the block on the names that it found, and puts its results where they were."""
        recording: Recording = graph.work
        tape, block = recording.tape.again(), recording.block
        scope = replace(self.scope, slots=list(recording.entry), tape=tape, reads=block.frozen)
        for step in block.steps:
            self._step(scope, step)
        for old, new in zip(recording.made, scope.slots[len(recording.entry) :], strict=True):
            # views of what was there before lie where they did
            if old is not None and new is not None and old.data_ptr() != new.data_ptr():
                old.copy_(new)

    def refuse(self, name: str) -> None:
        raise RuntimeError(name)

    def see_most(self) -> None:
        self.most = allocated() + self.UNSEEN
