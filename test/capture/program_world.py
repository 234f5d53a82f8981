"""Runs programs: with graphs, and as eager would without them.

Both keep the same books on pools: graphs that share one are replayed in the
order of their captures, since each writes where later ones have their results.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from memory import allocated, falls_to, Peak
from patched import mps
from program_refusals import ENDINGS, Interruption, READS, REFUSALS
from program_scope import run_step, Scope, Tape
from tensor_programs import Action, Block, CONTROLS, Program, Step
from torch import Tensor


@dataclass
class Graph:
    """A capture, by the order in which it was made."""

    number: int
    pool: object
    # the pools that a replay writes to: its own and those of graphs replayed in it
    pools: set[object] = field(default_factory=set)
    # what the world replays it by
    work: Any = None


@dataclass
class Recording:
    """What eager needs to do again what a block did."""

    steps: tuple[Step, ...]
    reads: bool
    # the names before the block and what it added to them
    entry: list[Tensor | None]
    made: list[Tensor | None]
    tape: Tape[Any]


@dataclass
class Moment:
    """All that could be seen at a time."""

    when: str
    seen: dict[str, Tensor]


class World(ABC):
    """Performs the actions of a program."""

    def __init__(self) -> None:
        mps.manual_seed(5)
        self.scope = Scope()
        self.graphs: list[Graph] = []
        self.moments: list[Moment] = []
        # of captures that share theirs with nothing: the size of the pool, or how large it may be
        self.pool_bytes: list[int] = []
        self._count = 0
        self._saved: tuple[Tensor, Tensor] | None = None
        self.counts: Counter[str] = Counter(programs=1)
        # set in a block
        self._underway: Graph | None = None

    def perform(self, program: Program) -> None:
        for number, action in enumerate(program):
            if isinstance(action, Block):
                self._capture(action)
            else:
                self._step(self.scope, action)
            if action[0] == "check" if not isinstance(action, Block) else bool(action.ending):
                self._look(f"after action {number}, {action}")
        self._look("at the end")

    def close(self) -> None:
        """Lets go of everything, of graphs in one way and the other."""
        for number, graph in enumerate(self.graphs):
            if number % 2:
                self._release(graph, keep=True)
        self.graphs.clear()
        self.scope = Scope(slots=[], hosts=[], parameter=torch.empty(0))

    def _look(self, when: str) -> None:
        self.moments.append(Moment(when, self.scope.visible()))

    # steps

    def _step(self, scope: Scope, step: Step) -> None:
        name, i, j = step
        if name == "replay":
            for graph in scope.tape.once(lambda: self._chain(i)):
                self.counts["replays in captures" if self._underway else "replays"] += 1
                self._replay(graph)
        elif name == "refused":
            scope.tape.once(lambda: self._refused(sorted(REFUSALS)[(i + 16 * j) % len(REFUSALS)], scope.reads))
        elif name in CONTROLS:
            scope.tape.once(lambda: self._control(name, i, j))
        elif name == "hosts":
            for host in scope.hosts:
                host.copy_(torch.rand(host.shape, generator=torch.Generator().manual_seed(i)) * 8 - 4)
        elif name == "seed":
            mps.manual_seed(i)
            scope.generator.manual_seed(j)
        elif name == "state":
            self._state(i % 2 == 0)
        elif name != "check":
            run_step(scope, name, i, j)

    def _state(self, save: bool) -> None:
        if save:
            self._saved = mps.get_rng_state(), self.scope.generator.get_state()
        elif self._saved:
            mps.set_rng_state(self._saved[0])
            self.scope.generator.set_state(self._saved[1])

    def _control(self, name: str, i: int, j: int) -> None:
        if name in ("reset", "drop"):
            self._forget(i, keep=name == "reset")
        elif name == "empty_cache":
            mps.empty_cache()
        else:
            self._executables(i)

    # which graphs go together

    def _chain(self, i: int) -> list[Graph]:
        """The graphs to replay for one of them: later ones whose pool it writes to have to follow."""
        if not self.graphs:
            return []
        start = i % len(self.graphs)
        chain, pools = [self.graphs[start]], set(self.graphs[start].pools)
        for graph in self.graphs[start + 1 :]:
            if pools & graph.pools:
                chain.append(graph)
                pools |= graph.pools
        if self._underway:
            if self._underway.pool in pools:
                return []  # it would write where this block has its tensors
            self._underway.pools |= pools
        return chain

    def _forget(self, i: int, keep: bool) -> None:
        """Lets go of a graph, and of earlier ones that would write to what is left of it."""
        if not self.graphs:
            return
        last = i % len(self.graphs)
        pools: set[object] = set()
        for graph in self.graphs[last::-1]:
            if pools & graph.pools or not pools:
                pools |= graph.pools
                self.graphs.remove(graph)
                self._release(graph, keep)

    def _choose_pool(self, choice: int, number: int) -> object:
        if choice == 3 and self.graphs:
            return self.graphs[number % len(self.graphs)].pool
        return f"shared {choice}" if choice in (1, 2) else f"own {number}"

    def _is_shared(self, pool: object) -> bool:
        return any(pool in graph.pools for graph in self.graphs)

    # captures

    def _capture(self, block: Block) -> None:
        number, self._count = self._count, self._count + 1
        graph = Graph(number, self._choose_pool(block.pool, number))
        graph.pools.add(graph.pool)
        slots = self.scope.slots
        # otherwise what the block frees must not be held
        entry = list(slots) if self.repeats or (block.ending and block.undone) else []
        length = len(slots)
        level = self._level() if block.ending and block.undone else 0
        tape: Tape[Any] = Tape()
        self.counts["captures"] += 1
        self.counts["steps captured"] += len(block.steps)
        if self._record(graph, block, tape):
            self._keep(graph, Recording(block.steps, block.relaxed, entry, slots[length:], tape))
            self.graphs.append(graph)
        elif block.undone:
            slots[:] = entry
            del tape
            # a pool that others need keeps what it grew by
            if not self._is_shared(graph.pool):
                self._came_back(level)
        elif self._is_shared(graph.pool):
            # it lies where these graphs write
            slots[length:] = [None] * (len(slots) - length)

    def _record(self, graph: Graph, block: Block, tape: Tape[Any]) -> bool:
        """Runs a block, and says whether it left a graph."""
        scope = replace(self.scope, tape=tape, reads=block.relaxed)
        victim = torch.zeros(2, device="mps")
        ended = False
        try:
            with self._recording(graph, block):
                self._underway = graph
                for step in block.steps:
                    self._step(scope, step)
                ended = True
                self._end(block, victim)
        except (Interruption, KeyboardInterrupt, RuntimeError) as error:
            if not ended or type(error) is not ENDINGS.get(block.ending):
                raise
        else:
            return True
        finally:
            self._underway = None
        self.counts["captures that raised"] += 1
        self._failed(graph)
        return False

    def _end(self, block: Block, victim: Tensor) -> None:
        name = block.ending
        if name == "own":
            raise Interruption
        if name == "interrupt":
            raise KeyboardInterrupt
        if name == "moved":
            victim.add_(1)
            victim.data = torch.ones(2, device="mps")
        elif name and not (block.relaxed and name in READS):
            self._refuse(name)

    # what the two worlds do differently

    # whether a replay runs the block again
    repeats: ClassVar[bool]

    @abstractmethod
    def _recording(self, graph: Graph, block: Block) -> AbstractContextManager[None]:
        """Surrounds a block."""

    @abstractmethod
    def _refuse(self, name: str) -> None:
        """Does what a capture refuses, and raises."""

    @abstractmethod
    def _keep(self, graph: Graph, recording: Recording) -> None:
        """Takes over what a block left."""

    @abstractmethod
    def _replay(self, graph: Graph) -> None: ...

    # What follows is of no concern to eager.

    def _refused(self, name: str, reads: bool) -> None:
        """Sees that something is refused without harm."""

    def _failed(self, graph: Graph) -> None:
        """Sees what is left of a capture whose block raised."""

    def _release(self, graph: Graph, keep: bool) -> None:
        """Lets go of a graph; the object may be kept for another capture."""

    def _executables(self, i: int) -> None:
        """Changes how executables are kept."""

    def _level(self) -> int:
        return 0

    def _came_back(self, level: int) -> None:
        """Sees that no more memory is in use than before a capture that failed."""


class EagerWorld(World):
    """Runs a block again where the other world replays its graph."""

    repeats = True
    # Bytes: the small tensors that operators make for themselves, which nobody sees from outside.
    UNSEEN = 1 << 12

    @contextmanager
    def _recording(self, graph: Graph, block: Block) -> Iterator[None]:
        before = allocated()
        with Peak() as peak:
            yield
        if block.ending == "moved":
            raise RuntimeError(block.ending)
        held = max(0, allocated() - before)
        if block.pool == 0:
            self.pool_bytes.append(max(0, peak.bytes - before) + held + self.UNSEEN)

    def _refuse(self, name: str) -> None:
        raise RuntimeError(name)

    def _keep(self, graph: Graph, recording: Recording) -> None:
        graph.work = recording

    def _replay(self, graph: Graph) -> None:
        block: Recording = graph.work
        scope = replace(self.scope, slots=list(block.entry), tape=block.tape.again(), reads=block.reads)
        for step in block.steps:
            self._step(scope, step)
        for old, new in zip(block.made, scope.slots[len(block.entry) :]):
            # views of what was there before lie where they did
            if old is not None and new is not None and old.data_ptr() != new.data_ptr():
                old.copy_(new)


class GraphWorld(World):
    """Captures blocks into graphs, and replays these."""

    repeats = False

    def __init__(self) -> None:
        super().__init__()
        self._handles: dict[object, Any] = {}
        self._spare: list[Any] = []

    def close(self) -> None:
        super().close()
        self._spare.clear()
        mps.set_executable_cache_enabled(False)
        mps.set_executable_cache_limit(1024)

    @contextmanager
    def _recording(self, graph: Graph, block: Block) -> Iterator[None]:
        if graph.pool not in self._handles and block.pool in (1, 2):
            self._handles[graph.pool] = mps.graph_pool_handle()
        graph.work = self._spare.pop() if self._spare else mps.MPSGraph()
        graph.work.register_generator_state(self.scope.generator)
        mode = "relaxed" if block.relaxed else "strict"
        with mps.graph(graph.work, pool=self._handles.get(graph.pool), capture_error_mode=mode):
            self._handles[graph.pool] = graph.work.pool()
            yield
        if block.pool == 0:
            self.pool_bytes.append(graph.work.stats()["pool_bytes"])

    def _refuse(self, name: str) -> None:
        assert self._underway
        REFUSALS[name](self.scope.parameter.detach(), self._underway.work)
        raise AssertionError(f"{name} was not refused")

    def _refused(self, name: str, reads: bool) -> None:
        if reads and name in READS:
            return
        try:
            self._refuse(name)
        except RuntimeError:
            pass

    def _keep(self, graph: Graph, recording: Recording) -> None:
        pass

    def _replay(self, graph: Graph) -> None:
        graph.work.replay()

    def _failed(self, graph: Graph) -> None:
        assert not mps.is_current_stream_capturing()
        self._spare_empty(graph)

    def _release(self, graph: Graph, keep: bool) -> None:
        if keep:
            graph.work.reset()
            self._spare_empty(graph)
        # the object of the books may still be in those of a block
        graph.work = None

    def _spare_empty(self, graph: Graph) -> None:
        try:
            graph.work.replay()
        except RuntimeError as error:
            assert "this graph is empty" in str(error)
        else:
            raise AssertionError("an empty graph was replayed")
        self._spare.append(graph.work)

    def _executables(self, i: int) -> None:
        if i % 4 == 0:
            mps.executable_cache_clear()
        elif i % 4 == 1:
            mps.set_executable_cache_limit(2)
        else:
            mps.set_executable_cache_enabled(i % 4 == 2)

    def _level(self) -> int:
        return allocated()

    def _came_back(self, level: int) -> None:
        assert falls_to(level), f"a capture that failed keeps {allocated() - level} bytes"
