r"""Traced graphs that run as captured ones: what ``torch.compile(backend="mpsgraphs")`` makes of a function."""

import itertools
import threading
import warnings
import weakref
from dataclasses import asdict, dataclass, field
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

import torch
from torch.fx import GraphModule, Node
from torch.multiprocessing.reductions import StorageWeakRef

from ._padded_batches import PaddedBatches
from ._static_memory import GraphPool, StaticMemory
from ._traced_capture import Steps, TracedCapture
from ._traced_graph import is_tensor, mutated, TracedGraph, varies
from ._traced_run import (
    CapturedStep,
    copy_of,
    dense_copy_of,
    EagerStep,
    place_of,
    TracedRun,
    Values,
)


@dataclass(frozen=True)
class Options:
    """What ``options`` of :func:`torch.compile` may say to the backend."""

    copy_outputs: bool = True
    pad_batch: bool = False
    max_graphs: int = 8

    @staticmethod
    def of(given: Optional[Dict[str, Any]]) -> "Options":
        known = Options.__dataclass_fields__
        for name, value in (given or {}).items():
            if name not in known:
                raise ValueError(
                    f"torch.compile(backend='mpsgraphs'): there is no option {name!r}; "
                    f"known are {', '.join(sorted(known))}"
                )
            wanted = type(known[name].default)
            if type(value) is not wanted or (wanted is int and value < 1):
                raise ValueError(
                    f"torch.compile(backend='mpsgraphs'): the option {name!r} takes "
                    f"{'a positive int' if wanted is int else 'a bool'}, but is {value!r}"
                )
        return Options(**(given or {}))


class SharedMemory:
    """The pools of one compiled function, of which one thread at a time may use one.

    Forward passes whose backward passes are pending lie in pools of their own, so that each may be replayed whatever
    the order of the backward passes. One pool is enough for calls that do not overlap.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.pools: List[GraphPool] = []

    def pool_for(self, forward: Optional[StaticMemory]) -> GraphPool:
        """Return a pool in which nothing is in use, except by the forward pass of the graphs to capture."""
        pools = [forward.pool, *self.pools] if forward else self.pools
        for pool in pools:
            if pool.is_lent_to_others():
                continue
            if all(member is forward for member in pool.holders()):
                return pool
        self.pools.append(GraphPool())
        return self.pools[-1]


@dataclass
class Roles:
    """What the caller says of arguments and results, by position.

    Attributes:
        fixed: Arguments that lie at the same place in each call, as far as is known.
        returned: How many of the results the caller gets. Those after them are for the backward
            pass, and stay in the memory of the graphs until it is over.
        consumed: How many of these the caller copies at once.
    """

    fixed: Set[int]
    returned: int
    consumed: int = 0


@dataclass(eq=False)
class _Graphs:
    """A traced graph that was captured for inputs of one kind."""

    key: Tuple[Any, ...]
    # number of the last call that used it
    last_use: int
    # of arguments that are used where they are: the place, and whether they still exist
    places: List[bytes]
    storages: List[StorageWeakRef]
    # of arguments whose values are copied: where to, by position
    copies: Dict[int, torch.Tensor]
    memory: StaticMemory
    steps: Steps = field(default_factory=list)
    has_eager_steps: bool = False
    values: Values = field(default_factory=dict)
    all_places: bytes = field(init=False)
    # if a call only replays and gives results: these
    results: Optional[List[torch.Tensor]] = None

    def __post_init__(self) -> None:
        self.all_places = b"".join(self.places)


# All that exist, in the order in which they were made.
_made: "weakref.WeakValueDictionary[int, CompiledGraph]" = weakref.WeakValueDictionary()
_numbers = itertools.count()


class CompiledGraph:
    """Runs a traced graph by replays, and eagerly what can't be captured.

    The first call for inputs of a kind is the capture: it runs the operators as always. Arguments
    that are not ``fixed`` are copied to memory that the graphs read.

    Arguments:
        module: The traced graph.
        part: ``"inference"``, ``"forward"`` or ``"backward"``.
        name: What messages call the function.
        forward: Of a backward part, that whose results it takes.
    """

    def __reduce__(self) -> Any:
        raise TypeError(
            f"torch.compile(backend='mpsgraphs'): {self.name} can't be copied or pickled, since its graphs belong to "
            "this process. Save the state_dict() of the model instead."
        )

    def __init__(
        self,
        module: GraphModule,
        part: str,
        name: str,
        options: Options,
        shared: SharedMemory,
        roles: Roles,
        forward: Optional["CompiledGraph"] = None,
    ) -> None:
        # gradients alias nothing of the caller
        self.traced = TracedGraph(module, 0 if part == "backward" else roles.returned)
        self.part = part
        self.name = name
        self.options = options
        self.shared = shared
        self.roles = roles
        self.forward = forward
        self.padding = PaddedBatches(self.traced, part) if options.pad_batch else None
        # of the batch that a call pads
        self.rows: Optional[int] = None
        if self.padding:
            roles.fixed.update(self.padding.arguments)
        placeholders = self.traced.placeholders
        tensors = [i for i, node in enumerate(placeholders) if is_tensor(node)]
        self.fixed = [i for i in tensors if i in roles.fixed]
        self.moving = [i for i in tensors if i not in roles.fixed]
        self.numbers = [i for i, node in enumerate(placeholders) if not is_tensor(node)]
        self.owned = self.fixed
        if forward is not None:
            # what the forward pass made has the shape that its operators gave it, which tracing may not know
            saved = [n for n in forward.saved if isinstance(n, Node) and is_tensor(n)]
            self.owned = [i for i, n in zip(self.fixed, saved) if n.op == "placeholder"]
        self.positions = {node: i for i, node in enumerate(placeholders)}
        written = set(mutated(self.traced.nodes))
        self.written = [i for i in self.moving if placeholders[i] in written]
        self.capture = TracedCapture(self.traced, f"{name} ({part})")
        self.capture_of_all_sizes: Optional[TracedCapture] = None
        # whether a call may consist of replays and of copies of their results
        self.is_simple = (
            part == "inference"
            and not self.padding
            and not self.written
            and not self.traced.views
            and self.positions.keys().isdisjoint(self.traced.results)
        )
        # gradients may become those of parameters, and live long
        self.copies_results = options.copy_outputs or part == "backward"
        self.graphs: List[_Graphs] = []
        self.calls = 0
        # of inputs without graphs: number of the last call, the latest last
        self.misses: Dict[Tuple[Any, ...], int] = {}
        self.captures = 0
        self.replays = 0
        self.eager_calls = 0
        self.was_limited = False
        self.number = next(_numbers)
        _made[self.number] = self

    @property
    def saved(self) -> List[Any]:
        """The results that a forward pass keeps for the backward pass."""
        return self.traced.results[self.roles.returned :]

    def call(self, *args: Any) -> List[Any]:
        with self.shared.lock:
            # none in a capture
            graphs = self._find(args) if self.is_simple else None
            if graphs is not None and graphs.results is not None:
                return self._replay_only(graphs, args)
            grad_mode = torch.is_grad_enabled()
            torch._C._set_grad_enabled(False)  # no_grad() takes longer than the rest
            try:
                # the traced operators have the casts
                with torch._C._DisableAutocast():
                    return self._run(args, graphs)
            finally:
                torch._C._set_grad_enabled(grad_mode)

    def _replay_only(self, graphs: _Graphs, args: Sequence[Any]) -> List[Any]:
        """What _replay() does for a simple call, in fewer steps: a small model takes less time than they do."""
        memory = graphs.memory
        if graphs.copies:
            moving = [args[i] for i in graphs.copies]
            memory.copy_in(moving, memory.relations(moving))
        if memory.pool._lenders:
            memory.end_loans()
        for step in graphs.steps:
            step.replay()  # type: ignore[union-attr]
        self.replays += 1
        give = torch.Tensor.clone if self.copies_results else memory.lend
        return [give(value) for value in graphs.results or ()]

    def _run(self, args: Tuple[Any, ...], graphs: Optional[_Graphs]) -> List[Any]:
        if torch._C._mps_isCurrentStreamCapturing():
            return self._run_in_capture(args)
        if self.padding and not self.padding.reason:
            args, self.rows = self.padding.pad(args)
        graphs = graphs or self._find(args)
        if graphs is not None:
            return self._replay(graphs, args)
        self._check_traced(args)
        capture = self._capture_to_use(args)
        if capture is not None:
            owner = self._owner_of_saved(args)
            # a forward pass that ran eagerly leaves its results elsewhere each time
            if self.forward is None or owner is not None:
                return self._capture(capture, args, owner)
        self.eager_calls += self.capture.is_on_device
        return [self._cut(result) for result in self.traced.module.forward(*args)]

    def _run_in_capture(self, args: Sequence[Any]) -> List[Any]:
        """Runs the operators one by one, so that the caller's graph has memory of its own."""
        owner = self._owner_of_saved(args)
        if owner is not None and owner.memory.is_held():
            raise RuntimeError(
                f"torch.compile(backend='mpsgraphs'): the backward pass of {self.name} can't be captured, since its "
                "forward pass ran before the capture and later calls overwrite its activations. Call the function in "
                "the capture, too."
            )
        run = TracedRun(self.traced.module, dict(zip(self.traced.placeholders, args)))
        scalars: Values = {}
        for node in self.traced.nodes:
            run.call(node, scalars)
        return [
            run.values[result] if isinstance(result, Node) else result
            for result in self.traced.results
        ]

    def drop(self) -> None:
        """Gives all memory back; later calls capture again."""
        with self.shared.lock:
            self.graphs.clear()
            _made.pop(self.number, None)

    def report(self) -> Dict[str, Any]:
        return {
            "function": self.name,
            "part": self.part,
            "graphs": len(self.graphs),
            "pieces": [
                sum(isinstance(step, CapturedStep) for step in graphs.steps)
                for graphs in self.graphs
            ],
            "not_padded": self.padding.reason if self.padding else None,
            "splits": [asdict(split) for split in self.capture.splits],
            "captures": self.captures,
            "replays": self.replays,
            "eager_calls": self.eager_calls,
        }

    # Which graphs

    def _key(self, args: Sequence[Any]) -> Tuple[Any, ...]:
        flags = torch._C._mps_flags()
        # without numbers among the arguments all shapes are those of the trace
        if not self.numbers:
            return (flags,)
        shapes = ((args[i].shape, args[i].stride()) for i in self.moving)
        return (flags, *(args[i] for i in self.numbers), *shapes)

    def _find(self, args: Tuple[Any, ...]) -> Optional[_Graphs]:
        self.calls += 1
        if not self.graphs:
            return None
        key = self._key(args)
        for graphs in self.graphs:
            if (
                graphs.key == key[: len(graphs.key)]
                and torch._C._mps_haveMemoryKeys(args, self.fixed, graphs.all_places)
                and graphs.memory.may_replay()
            ):
                graphs.last_use = self.calls
                return graphs
        return None

    def _check_traced(self, args: Sequence[Any]) -> None:
        """Raises for a tensor that Dynamo's guards let pass, though the trace is of another shape or dtype."""
        for i in self.owned:
            traced = self.traced.placeholders[i].meta["val"]
            now = args[i]
            sizes = zip(now.shape, traced.shape)
            if (
                now.dtype != traced.dtype
                or now.dim() != traced.dim()
                or any(
                    isinstance(wanted, int) and size != wanted for size, wanted in sizes
                )
            ):
                raise RuntimeError(
                    f"torch.compile(backend='mpsgraphs'): {self.name} was traced with a parameter or buffer of shape "
                    f"{list(traced.shape)} and {traced.dtype}, which has shape {list(now.shape)} and {now.dtype} now. "
                    "Dynamo does not notice such a change in place; call torch._dynamo.reset() after it."
                )

    def _capture_to_use(self, args: Sequence[Any]) -> Optional[TracedCapture]:
        if not self.capture.is_possible or torch._C._mps_isCaptureUnderway():
            return None
        for graphs in self.graphs[:]:
            # of weights that are gone
            if (
                any(s.expired() for s in graphs.storages)
                and not graphs.memory.is_held()
            ):
                self.graphs.remove(graphs)
        if len(self.graphs) < self.options.max_graphs or self._make_room(args):
            return self.capture
        if not self.was_limited:
            self.was_limited = True
            warnings.warn(
                f"torch.compile(backend='mpsgraphs'): {self.name} ({self.part}) has "
                f"{len(self.graphs)} graphs, one for each set of shapes, weights and pending backward passes. Calls that "
                "need a new graph run eagerly, as a whole or in part, until they are more frequent than those of one of "
                "the graphs; options={'max_graphs': n} raises the limit."
            )
        if (
            not self.numbers
            or self.part != "inference"
            or len(self.graphs) > self.options.max_graphs
        ):
            return None
        if self.capture_of_all_sizes is None:
            self.capture_of_all_sizes = self.capture.of_all_sizes()
        is_possible = self.capture_of_all_sizes.is_possible
        return self.capture_of_all_sizes if is_possible else None

    def _make_room(self, args: Sequence[Any]) -> bool:
        """Drops the graphs that were not used for longest, if there was a call like this one since."""
        key = (*self._key(args), *(place_of(args[i]) for i in self.fixed))
        last_miss = self.misses.pop(key, 0)
        self.misses[key] = self.calls
        if len(self.misses) > 8 * self.options.max_graphs:
            del self.misses[next(iter(self.misses))]
        idle = [graphs for graphs in self.graphs if not graphs.memory.is_held()]
        oldest = min(idle, key=lambda graphs: graphs.last_use, default=None)
        if oldest is None or last_miss <= oldest.last_use:
            return False
        self.graphs.remove(oldest)
        return True

    def _owner_of_saved(self, args: Sequence[Any]) -> Optional[_Graphs]:
        """Return the graphs of the forward pass whose results a backward pass was given, if it was not eager."""
        if self.forward is None:
            return None
        places = {place_of(args[i]) for i in self.fixed}
        for graphs in self.forward.graphs:
            kept = [
                *graphs.copies.values(),
                *map(graphs.values.get, self.forward.saved),
            ]
            tensors = (t for t in kept if isinstance(t, torch.Tensor))
            if places <= {*graphs.places, *map(place_of, tensors)}:
                return graphs
        return None

    # Replay

    def _replay(self, graphs: _Graphs, args: Sequence[Any]) -> List[Any]:
        memory = graphs.memory
        if graphs.copies:
            moving = [args[i] for i in graphs.copies]
            memory.copy_in(moving, memory.relations(moving))
        memory.end_loans()
        run = TracedRun(self.traced.module, graphs.values)
        if graphs.has_eager_steps:
            run.values = {**dict(zip(self.traced.placeholders, args)), **graphs.values}
        for step in graphs.steps:
            if not step.run(run):
                self.eager_calls += 1
                last = self.traced.nodes.index(step.nodes[-1])
                run.go_on_eagerly(self.traced.nodes[last + 1 :])
                break
        self.replays += 1
        return self._finish(graphs, run, args)

    def _finish(
        self, graphs: _Graphs, run: TracedRun, args: Sequence[Any]
    ) -> List[Any]:
        for i in self.written:
            if i in graphs.copies:
                args[i].copy_(graphs.copies[i])
        results: List[Any] = []
        for i, node in enumerate(self.traced.results):
            is_kept = i >= self.roles.returned
            if not isinstance(node, Node):
                results.append(node)
                continue
            at = self.positions.get(node)
            if at is not None:
                if not is_kept or at not in graphs.copies:
                    results.append(args[at])
                    continue
                value = graphs.copies[at]
            else:
                # a backward pass finds what is kept for it at the same place each time
                value = (graphs if is_kept and run.is_whole else run).values[node]
            if not isinstance(value, torch.Tensor) or i < self.roles.consumed:
                results.append(value)
            elif is_kept:
                results.append(graphs.memory.hold(value))
            else:
                is_view = node in self.traced.views
                results.append(None if is_view else self._given(graphs, value))
        if self.traced.views:
            self._make_views(graphs, run, args, results)
            results = list(map(self._cut, results))
        return results

    def _cut(self, value: Any) -> Any:
        """Leaves the rows of the padding out."""
        is_padded = self.rows is not None and isinstance(value, torch.Tensor)
        return value[: self.rows] if is_padded else value

    def _given(self, graphs: _Graphs, value: torch.Tensor) -> torch.Tensor:
        # views are made of the whole
        value = value if self.traced.views else self._cut(value)
        return copy_of(value) if self.copies_results else graphs.memory.lend(value)

    def _make_views(
        self, graphs: _Graphs, run: TracedRun, args: Sequence[Any], results: List[Any]
    ) -> None:
        """Makes results that share memory with tensors of the caller or with each other, as eager's do."""
        views = TracedRun(self.traced.module, dict(run.values))
        returned = self.traced.results[: self.roles.returned]
        given = dict(zip(self.traced.placeholders, args))
        for node in self.traced.read_by_views:
            value = given.get(node, run.values.get(node))
            if node in given and isinstance(value, torch.Tensor):
                # AOTAutograd would go by the base of a view, which may have other memory by now
                value = value.detach()
            elif node not in returned and isinstance(value, torch.Tensor):
                value = self._given(graphs, value)
            views.values[node] = value
        for node, result in zip(returned, results):
            if isinstance(node, Node) and node.op != "placeholder":
                views.values[node] = result
        for node in self.traced.views:
            views.call(node)
        for i, node in enumerate(returned):
            if node in self.traced.views:
                results[i] = views.values[node]

    # Capture

    def _capture(
        self, capture: TracedCapture, args: Sequence[Any], owner: Optional[_Graphs]
    ) -> List[Any]:
        key, moving = self._key(args), self.moving
        if capture is self.capture_of_all_sizes:
            key = key[:1]
            moving = [i for i in moving if not varies(self.traced.placeholders[i])]
        with torch.inference_mode(False), torch.no_grad():
            copies = {i: dense_copy_of(args[i]) for i in moving}
        graphs = _Graphs(
            key,
            self.calls,
            [place_of(args[i]) for i in self.fixed],
            [StorageWeakRef(args[i].untyped_storage()) for i in self.fixed],
            copies,
            StaticMemory(
                self.shared.pool_for(owner.memory if owner else None),
                list(copies.values()),
                f"A result of {self.name} was used after a later call, which has overwritten it: with "
                "options={'copy_outputs': False} results are valid until the next call. Clone it before that, or "
                "leave the option out.",
            ),
        )
        values = dict(zip(self.traced.placeholders, args))
        values.update((self.traced.placeholders[i], c) for i, c in copies.items())
        run = TracedRun(self.traced.module, values)
        with torch.inference_mode(False), torch.no_grad():
            graphs.steps = capture.run(run, graphs.memory.pool.handle)
        if run.is_whole:
            self._keep(graphs, run)
            self.captures += 1
            self.graphs.append(graphs)
            _made[self.number] = self
        else:
            self.eager_calls += 1
        return self._finish(graphs, run, args)

    def _keep(self, graphs: _Graphs, run: TracedRun) -> None:
        """Keeps what replays read, and no more."""
        captured_steps = [s for s in graphs.steps if isinstance(s, CapturedStep)]
        captured = {node for step in captured_steps for node in step.nodes}
        graphs.has_eager_steps = len(captured_steps) < len(graphs.steps)
        if graphs.has_eager_steps:
            saved = set(self.saved)
            for step in graphs.steps:
                if isinstance(step, EagerStep):
                    step.kept = {
                        n: run.values[n]
                        for n in step.nodes
                        if n in saved or captured.intersection(n.users)
                    }
        # The capture has dropped what is not read after its own piece.
        arguments = set(self.traced.placeholders)
        copied = {self.traced.placeholders[i] for i in graphs.copies}
        graphs.values = {
            n: value
            for n, value in run.values.items()
            if n in copied or n not in arguments
        }
        results = [
            value
            for node in self.traced.results
            if isinstance(value := graphs.values.get(node), torch.Tensor)
            and torch.empty_like(value).stride() == value.stride()
        ]
        if (
            self.is_simple
            and not graphs.has_eager_steps
            and len(results) == len(self.traced.results)
        ):
            graphs.results = results


def reports() -> List[Dict[str, Any]]:
    """What :func:`torch.mps.compile_report` returns."""
    return [compiled.report() for compiled in _made.values()]


def drop_all() -> None:
    """Gives the memory of all compiled functions back."""
    for compiled in list(_made.values()):
        compiled.drop()
