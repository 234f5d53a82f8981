"""Performs programs with graphs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from memory import allocated, falls_to
from program_world import Graph, World
from tensor_programs import Block, REFUSALS
from torch import mps

# A buffer takes up to so many bytes more than its size says.
ROUNDING = 256


class GraphWorld(World):
    """Runs programs as they are written."""

    repeats = False
    # how graphs are made
    options: ClassVar[dict[str, Any]] = {}

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
        work = graph.work = self._spare.pop() if self._spare else mps.MPSGraph(**self.options)
        work.register_generator_state(self.scope.generator)
        # The cache stays: a tensor may get a larger block than it needs where no small one is cached, and counts as that.
        pool = self._handles.get(graph.pool)
        with mps.graph(work, pool, freeze_host_reads=block.frozen, empty_cache=False):
            self._handles[graph.pool] = work.pool()
            yield
        assert work.pool() == self._handles[graph.pool]
        if block.pool == 0:
            self.pool_bytes.append(work.stats()["pool_bytes"])

    def replay(self, graph: Graph) -> None:
        graph.work.replay()

    def refuse(self, name: str) -> None:
        assert self.underway
        REFUSALS[name](self.scope.parameter.detach(), self.underway.work)
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

    def see_most(self) -> None:
        statistics = [(graph.pool, graph.work.stats()) for graph in self.graphs]
        # a pool may hold tensors of the program too, which count twice then
        needed = sum({pool: counts["pool_bytes"] for pool, counts in statistics}.values())
        needed += sum(counts["buffer_bytes"] + counts["buffers"] * ROUNDING for _, counts in statistics)
        assert falls_to(self.most + needed), "memory is in use that neither graphs nor tensors need"

    def see_level(self, most: int) -> None:
        assert falls_to(most), f"a capture that failed keeps {allocated() - most} bytes"
