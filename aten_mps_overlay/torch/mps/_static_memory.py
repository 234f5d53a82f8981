r"""Memory that graphs use again in each replay: what of it is still needed, and who may write to it."""

import itertools
import threading
import weakref
from typing import Callable, List, Optional, Sequence

import torch

from .graphs import _PoolHandle, graph_pool_handle, MPSGraph


# What torch._C._mps_relationsOf() says of an argument and the static input in its place.
UNLIKE, ELSEWHERE, SAME, OVERLAPS = range(4)

_STEPS = (
    "kernels",
    "graph_runs",
    "copies",
    "fills",
    "kernel_objects",
    "host_refreshes",
)

_pools: "weakref.WeakValueDictionary[_PoolHandle, GraphPool]" = (
    weakref.WeakValueDictionary()
)


def replay_of(mps_graph: MPSGraph) -> Callable[[], None]:
    """Return the replay of a graph, or a function that does nothing if the graph has no steps but only views."""
    stats = mps_graph.stats()
    return mps_graph.replay if any(stats.get(kind) for kind in _STEPS) else lambda: None


class StateBefore:
    """What a run changes and shall not: tensors, and the default generator if it draws."""

    def __init__(self, tensors: Sequence[torch.Tensor], draws: bool = True) -> None:
        self.saved = [(tensor, tensor.detach().clone()) for tensor in tensors]
        self.state = torch.mps.get_rng_state() if draws else None

    def bring_back(self) -> None:
        with torch.no_grad():
            for tensor, value in self.saved:
                tensor.copy_(value)
        if self.state is not None:
            torch.mps.set_rng_state(self.state)


class GraphPool:
    """A memory pool and the graphs that were captured into it.

    The temporaries of a graph lie in memory that was free during its capture. A replay may therefore overwrite
    results of the graph itself and of graphs captured later, and never those of graphs captured earlier.

    Attributes:
        lock: Held from the copy of the inputs to the copy of the results, since a pool serves one call at a time.
    """

    def __init__(self, handle: Optional[_PoolHandle] = None) -> None:
        self.handle = handle or graph_pool_handle()
        self.lock = threading.RLock()
        self._captures = itertools.count()
        # those with results that are lent, or held
        self._lenders: List[StaticMemory] = []
        self._holders: List[StaticMemory] = []

    @staticmethod
    def of(handle: Optional[_PoolHandle]) -> "GraphPool":
        """Return the one object for the pool of a handle, or a new pool."""
        pool = _pools.get(handle) if handle else None
        if pool is None:
            pool = GraphPool(handle)
            _pools[pool.handle] = pool
        return pool

    def holders(self) -> "List[StaticMemory]":
        """Return those with results that a backward pass still needs."""
        self._holders = [memory for memory in self._holders if memory.is_held()]
        return self._holders

    def is_lent_to_others(self, position: int = 0) -> bool:
        """Whether other threads have results that a replay of the graphs at a position would take from them."""
        return any(
            lender._position >= position
            and lender._lent_by is not threading.current_thread()
            and lender._loans.is_out()
            for lender in self._lenders
        )


class StaticMemory:
    """The inputs and results of one set of graphs, which each replay reads and writes in the same place.

    Arguments:
        pool: The pool that the graphs are captured into, after all that was captured into it before.
        inputs: Tensors that the graphs read, one for each argument.
        expired: The error of lent results that are used after they were overwritten. By default they are
            copied before that.
    """

    def __init__(
        self,
        pool: GraphPool,
        inputs: Sequence[torch.Tensor],
        expired: Optional[str] = None,
    ) -> None:
        self.pool = pool
        self.inputs = [tensor.detach() for tensor in inputs]
        self._position: int = next(pool._captures)
        self._loans: torch._C._MPSLoans = torch._C._MPSLoans(expired)
        self._lent_by: Optional[threading.Thread] = None
        self._held: List[weakref.ref[torch.Tensor]] = []

    def relations(self, args: List[torch.Tensor]) -> List[int]:
        """Tell how each argument relates to the static input in its place."""
        return torch._C._mps_relationsOf(args, self.inputs)

    def copy_in(self, args: Sequence[torch.Tensor], relations: List[int]) -> None:
        """Copy arguments to the static inputs, except those that are static inputs themselves."""
        given = [
            (static, arg.clone() if relation == OVERLAPS else arg)
            for static, arg, relation in zip(self.inputs, args, relations)
            if relation != SAME
        ]
        if len(given) == 1:
            given[0][0].copy_(given[0][1])
        elif given:
            torch._foreach_copy_([static for static, _ in given], [a for _, a in given])

    def lend(self, result: torch.Tensor) -> torch.Tensor:
        """Return a result without a copy, until a replay overwrites it."""
        if self not in self.pool._lenders:
            self.pool._lenders.append(self)
            self._lent_by = threading.current_thread()
        return self._loans.lend(result)

    def hold(self, result: torch.Tensor) -> torch.Tensor:
        """Return a result that must not be overwritten while the returned tensor exists."""
        if not self._held:
            self.pool._holders.append(self)
        alias = result.detach()
        self._held.append(weakref.ref(alias))
        return alias

    def is_held(self) -> bool:
        """Whether a result that hold() returned still exists."""
        if all(reference() is None for reference in self._held):
            self._held.clear()
        return bool(self._held)

    def may_replay(self) -> bool:
        """Whether a replay overwrites nothing that is held, and nothing that other threads have."""
        if self.pool._lenders and self.pool.is_lent_to_others(self._position):
            return False
        return not self.pool._holders or all(
            holder._position < self._position for holder in self.pool.holders()
        )

    def end_loans(self) -> None:
        """Take back, or copy, what a replay is about to overwrite."""
        for lender in self.pool._lenders[:]:
            if lender._position >= self._position:
                lender._loans.end()
                self.pool._lenders.remove(lender)
