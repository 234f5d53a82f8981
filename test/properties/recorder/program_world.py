"""Performs programs with graphs, and by what eager does without: a block runs again where a graph is replayed.

Both ways keep the same books on pools: graphs that share one are replayed in the order of their captures,
since each writes where later ones have results.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from memory import allocated, falls_to, Peak
from program_scope import run_step, Scope, Tape
from tensor_programs import Block, CAUGHT, CONTROLS, ENDINGS, Interruption, MISUSES, Program, REFUSALS, Step
from torch import mps, Tensor


@dataclass
class Graph:
    """A capture, as both worlds know it."""

    pool: str
    # the pools that a replay writes to: its own and those of graphs replayed in it
    pools: set[str] = field(default_factory=set)
    # the graphs that its block replayed
    parts: list["Graph"] = field(default_factory=list)
    # what the world replays it by
    work: Any = None


@dataclass
class Recording:
    """What it takes to do again what a block did."""

    block: Block
    # the names before the block and what it added to them
    entry: list[Tensor | None]
    made: list[Tensor | None]
    tape: Tape


@dataclass
class Moment:
    """What could be seen at a time."""

    when: str
    seen: dict[str, Tensor]


NOTHING = Scope(slots=[], hosts=[], parameter=torch.empty(0))


class World:
    """Performs the actions of a program without any capture, and remembers what it saw."""

    # whether a replay runs the block again
    repeats = True
    # Bytes: the small tensors that operators make for themselves, which nobody sees from outside.
    UNSEEN = 1 << 12
    # Bytes: two statuses of a draw without replacement, which each replay looks at, stay where they are.
    CHECKED = 1 << 10

    def __init__(self) -> None:
        mps.manual_seed(5)
        self.scope = Scope()
        self.graphs: list[Graph] = []
        self.moments: list[Moment] = []
        # by captures with a pool of their own: its size, or how large it may be
        self.pool_bytes: list[int] = []
        self.captures = self.raised = 0
        self.underway: Graph | None = None
        self._saved: list[Tensor] = []

    def perform(self, program: Program, level: int) -> None:
        """Performs all actions. At the end, graphs alone may need more memory than was in use before."""
        for number, action in enumerate(program):
            when = f"after action {number}, {action}"
            if isinstance(action, Block):
                self._capture(action)
                looks = action.ending != ""
            else:
                # nothing is to be remembered of it
                self._step(replace(self.scope, tape=Tape()), action)
                looks = action[0] == "check"
            # A look waits for the device, of which there should be some work in flight when other things happen.
            seen = self.scope.visible() if looks else self.scope.random_states()
            self.moments.append(Moment(when, seen))
        self.moments.append(Moment("at the end", self.scope.visible()))
        living = {id(graph) for graph in self.graphs}
        # A graph keeps what forgotten ones need that it replays, and does not say how much that is.
        if all(id(part) in living for graph in self.graphs for part in graph.parts):
            self.scope = NOTHING
            self.see_kept(level)

    def close(self) -> None:
        """Lets go of everything, of graphs in one way and the other."""
        for number, graph in enumerate(self.graphs):
            self.release(graph, keep=number % 2 == 0)
        self.graphs.clear()
        self.scope = NOTHING

    # steps

    def _step(self, scope: Scope, step: Step) -> None:
        name, i, j = step
        if name == "replay":
            for graph in scope.tape.once(lambda: self._chain(i)) * (1 + j % 3):
                self.replay(graph)
        elif name == "refused":
            misuse = sorted(MISUSES)[(i + 16 * j) % len(MISUSES)]
            scope.tape.once(lambda: self.see_refused(misuse))
        elif name in CONTROLS:
            scope.tape.once(lambda: self._control(name, i))
        elif name == "hosts":
            scope.update_hosts(i)
        elif name == "seed":
            mps.manual_seed(i)
            scope.generator.manual_seed(j)
        elif name == "state":
            self._state(save=i % 2 == 0)
        elif name != "check":
            run_step(scope, name, i, j)

    def _control(self, name: str, i: int) -> None:
        if name == "executables":
            self.change_executables(i)
        elif name == "empty_cache":
            mps.empty_cache()
        else:
            self._forget(i, keep=name == "reset")

    def _state(self, save: bool) -> None:
        if save:
            self._saved = [mps.get_rng_state(), self.scope.generator.get_state()]
        elif self._saved:
            mps.set_rng_state(self._saved[0])
            self.scope.generator.set_state(self._saved[1])

    # which graphs go together

    def _chain(self, i: int) -> list[Graph]:
        """The graphs to replay for one of them: later ones with a pool that it writes to have to follow."""
        if not self.graphs:
            return []
        start = i % len(self.graphs)
        chain, pools = [self.graphs[start]], set(self.graphs[start].pools)
        for graph in self.graphs[start + 1 :]:
            if pools & graph.pools:
                chain.append(graph)
                pools |= graph.pools
        if self.underway:
            if self.underway.pool in pools:
                return []  # it would write where this block has its tensors
            self.underway.pools |= pools
            self.underway.parts += chain
        return chain

    def _forget(self, i: int, keep: bool) -> None:
        """Lets go of a graph, and of earlier ones that would write to what is left of it."""
        if not self.graphs:
            return
        last = i % len(self.graphs)
        pools = set(self.graphs[last].pools)
        for graph in self.graphs[last::-1]:
            if pools & graph.pools:
                pools |= graph.pools
                self.graphs.remove(graph)
                self.release(graph, keep)

    def _choose_pool(self, choice: int) -> str:
        if choice == 3 and self.graphs:
            return self.graphs[self.captures % len(self.graphs)].pool
        return f"shared {choice}" if choice in (1, 2) else f"of capture {self.captures}"

    def _is_shared(self, pool: str) -> bool:
        return any(pool in graph.pools for graph in self.graphs)

    # captures

    def _capture(self, block: Block) -> None:
        self.captures += 1
        graph = Graph(self._choose_pool(block.pool))
        graph.pools.add(graph.pool)
        slots = self.scope.slots
        undone = block.undone and block.ending != ""
        # otherwise what the block frees must not be held
        entry = list(slots) if self.repeats or undone else []
        length = len(slots)
        level = self.level() if undone else 0
        tape: Tape = Tape()
        if self._record(graph, block, tape):
            if self.repeats:
                graph.work = Recording(block, entry, slots[length:], tape)
            self.graphs.append(graph)
            return
        self.raised += 1
        del tape
        self.see_empty(graph)
        if undone:
            slots[:] = entry
            # a pool that others need keeps what it grew by
            if not self._is_shared(graph.pool):
                self.see_level(level)
        elif self._is_shared(graph.pool):
            # these tensors lie where other graphs write
            slots[length:] = [None] * (len(slots) - length)

    def _record(self, graph: Graph, block: Block, tape: Tape) -> bool:
        """Runs a block, and says whether it left a graph."""
        scope = replace(self.scope, tape=tape, reads=block.frozen)
        victim = torch.zeros(2, device="mps")
        ended = False
        try:
            with self.recording(graph, block):
                self.underway = graph
                for step in block.steps:
                    self._step(scope, step)
                ended = True
                self._end(block, victim)
        except (Interruption, KeyboardInterrupt, RuntimeError) as error:
            if not ended or type(error) is not ENDINGS.get(block.ending):
                raise
            return False
        finally:
            self.underway = None
        return True

    def _end(self, block: Block, victim: Tensor) -> None:
        name = block.ending
        if name == "own":
            raise Interruption
        if name == "interrupt":
            raise KeyboardInterrupt
        if name == "moved":
            victim.add_(1)
            victim.data = torch.ones(2, device="mps")
        elif name and not block.is_allowed:
            end = self.see_refused if name.startswith(CAUGHT) else self.refuse
            end(name.removeprefix(CAUGHT))

    # what graphs do otherwise

    @contextmanager
    def recording(self, graph: Graph, block: Block) -> Iterator[None]:
        before = allocated()
        with Peak() as peak:
            yield
        if block.fails_at_the_end:
            raise RuntimeError(block.ending)
        if block.pool == 0:
            held = max(0, allocated() - before)
            checked = sum(name == "multinomial without replacement" for name, *_ in block.steps) * self.CHECKED
            self.pool_bytes.append(max(0, peak.bytes - before) + held + checked + self.UNSEEN)

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

    # what is to be done with graphs only

    def see_refused(self, name: str) -> None:
        """Sees that something is refused and does no harm."""

    def see_empty(self, graph: Graph) -> None:
        """Sees that nothing is left of a graph."""

    def release(self, graph: Graph, keep: bool) -> None:
        """Lets go of a graph; the object may be kept for another capture."""

    def change_executables(self, i: int) -> None:
        """Changes how executables are kept."""

    def level(self) -> int:
        """Returns how much memory is in use."""
        return 0

    def see_level(self, most: int) -> None:
        """Sees that no more memory is in use."""

    def see_kept(self, level: int) -> None:
        """Sees that only what graphs keep is in use beyond a level."""


class GraphWorld(World):
    """Runs programs as they are written."""

    repeats = False

    def __init__(self) -> None:
        super().__init__()
        self._limit = mps.executable_cache_stats()["limit"]
        self._handles: dict[str, Any] = {}
        # empty ones, for later captures
        self._spare: list[Any] = []

    def close(self) -> None:
        super().close()
        self._spare.clear()
        mps.set_executable_cache_enabled(False)
        mps.set_executable_cache_limit(self._limit)

    @contextmanager
    def recording(self, graph: Graph, block: Block) -> Iterator[None]:
        if block.pool in (1, 2) and graph.pool not in self._handles:
            self._handles[graph.pool] = mps.graph_pool_handle()
        work = graph.work = self._spare.pop() if self._spare else mps.MPSGraph()
        # The cache stays: a tensor may get a larger block than it needs where no small one is cached, and counts as that.
        pool = self._handles.get(graph.pool)
        # A step frees inputs, whose last values replays use.
        options = {"freeze_host_reads": block.frozen, "check_input_liveness": False, "empty_cache": False}
        with mps.graph(work, pool, **options):
            self._handles[graph.pool] = work.pool()
            yield
        assert work.pool() == self._handles[graph.pool]
        if block.pool == 0:
            self.pool_bytes.append(work.stats()["pool_bytes"])

    def replay(self, graph: Graph) -> None:
        graph.work.replay()

    def refuse(self, name: str) -> None:
        assert self.underway
        {**REFUSALS, **MISUSES}[name](self.scope.parameter.detach(), self.underway.work)
        raise AssertionError(f"{name} was not refused")

    def see_refused(self, name: str) -> None:
        try:
            self.refuse(name)
        except RuntimeError:
            pass

    def see_empty(self, graph: Graph) -> None:
        assert self.underway or not mps.is_current_stream_capturing()
        try:
            graph.work.replay()
        except RuntimeError as error:
            assert "this graph is empty" in str(error)
        else:
            raise AssertionError("an empty graph was replayed")
        self._spare.append(graph.work)

    def release(self, graph: Graph, keep: bool) -> None:
        if keep:
            graph.work.reset()
            self.see_empty(graph)
        # a block that replayed it may still know it
        graph.work = None

    def change_executables(self, i: int) -> None:
        if i % 4 == 0:
            mps.executable_cache_clear()
        elif i % 4 == 1:
            mps.set_executable_cache_limit(2)
        else:
            mps.set_executable_cache_enabled(i % 4 == 2)

    def level(self) -> int:
        return allocated()

    def see_kept(self, level: int) -> None:
        statistics = [(graph.pool, graph.work.stats()) for graph in self.graphs]
        kept = sum({pool: counts["pool_bytes"] for pool, counts in statistics}.values())
        kept += sum(counts["buffer_bytes"] for _, counts in statistics)
        assert falls_to(level + kept), f"{allocated() - level} bytes are in use where graphs keep {kept}"

    def see_level(self, most: int) -> None:
        assert falls_to(most), f"a capture that failed keeps {allocated() - most} bytes"
