r"""Capture MPS work into graphs and replay them, as :mod:`torch.cuda.graphs` does for CUDA."""

import os
import weakref
from collections import OrderedDict
from typing import (
    Any,
    Callable,
    Dict,
    List,
    Optional,
    Tuple,
    Type,
    TYPE_CHECKING,
    Union,
)

import torch

from .._utils import _dummy_type
from ..utils.hooks import RemovableHandle
from ._graph_dump import as_dot, as_html, as_json


if not hasattr(torch._C, "_MPSGraph"):
    # a build without MPS, or without these bindings: the classes exist, using them raises, and nothing is captured
    torch._C.__dict__["_MPSGraph"] = _dummy_type("_MPSGraph")
    torch._C.__dict__["_MPSGraphContext"] = _dummy_type("_MPSGraphContext")
    torch._C.__dict__["_mps_graph_pool_handle"] = _dummy_type("_mps_graph_pool_handle")
    torch._C.__dict__["_mps_isCurrentStreamCapturing"] = lambda: False
    torch._C.__dict__["_mps_isWatchedByGraph"] = lambda tensor: False

__all__ = [
    "Graph",
    "MPSGraph",
    "graph",
    "graph_capture",
    "graph_pool_handle",
    "graph_replay",
    "graph_reset",
    "is_current_stream_capturing",
]

_PoolHandle = Tuple[int, int]
_Hook = Callable[["MPSGraph"], None]

# The most replays that all graphs together keep encoded: kMostReady of MPSReadyReplays.h.
_MOST_AHEAD = 16

_ERROR_MODES = ("global", "thread_local", "relaxed", "default")


def _check_type(name: str, value: Any, *kinds: Type[Any]) -> None:
    if not isinstance(value, kinds):
        article = "an" if kinds[0] is int else "a"
        wanted = f"{article} {kinds[0].__name__}" + " or None" * (len(kinds) - 1)
        raise TypeError(f"{name} must be {wanted}, got {type(value).__name__}")


def _check_capture_options(pool: Any, capture_error_mode: Any, **flags: Any) -> None:
    is_handle = isinstance(pool, tuple) and [type(part) for part in pool] == [int, int]
    if pool is not None and not is_handle:
        raise TypeError(
            f"pool must come from graph_pool_handle() or MPSGraph.pool(), got {type(pool).__name__}"
        )
    _check_type("capture_error_mode", capture_error_mode, str)
    if capture_error_mode not in _ERROR_MODES:
        raise ValueError(
            'capture_error_mode must be "global", "thread_local", "relaxed" or "default", '
            f"got {capture_error_mode!r}"
        )
    for name, flag in flags.items():
        _check_type(name, flag, bool)


def is_current_stream_capturing() -> bool:
    r"""Return True if a graph records the work that the calling thread submits to the MPS stream.

    This holds in the block of a capture, and in the threads that autograd uses for it. The work of
    other threads is not recorded.
    """
    return torch._C._mps_isCurrentStreamCapturing()


def graph_pool_handle() -> _PoolHandle:
    r"""Return a token for a memory pool. Pass it as ``pool`` to several captures.

    A capture allocates from its pool. A later capture with the same pool may reuse memory that is
    free by then, so a replay of one graph may overwrite results of the others. Replay the graphs in
    any order, but read or clone each result before the next replay of a graph of the pool. In the
    order of their captures, later graphs may also read results of earlier ones.
    """
    return torch._C._mps_graph_pool_handle()


class MPSGraph(torch._C._MPSGraph):
    r"""A recording of GPU work that can be submitted again without running the Python code, the
    dispatcher and the operators that produced it.

    Use the name ``torch.mps.Graph`` for this class, because Apple has another class MPSGraph. The
    name ``MPSGraph`` follows :class:`torch.cuda.CUDAGraph`.

    .. warning::
        Graphs are a beta feature: their interface may change.

    A replay uses the same memory as the capture. Write new input into the captured tensors in
    place (:meth:`torch.Tensor.copy_`, ...), and read results from the tensors made in the
    capture. Each replay overwrites them. Shapes, dtypes and
    Python numbers are fixed at capture; a replay raises if a CPU tensor that the block read as a
    number has changed. If a ``.grad`` was None in the capture, each replay overwrites it and does not
    add to it, as in CUDA.

    The graph keeps the memory of a tensor that existed before the capture. If its storage is moved
    (:meth:`~torch.Tensor.resize_`, ``.data = ...``), the next replay raises. If the tensor is
    *replaced* instead, as by ``load_state_dict(assign=True)``, or dropped, the next replay raises,
    too. With ``check_input_liveness=False`` it uses the old one.

    Arguments:
        keep_graph (bool): With True, the graph keeps the recording, so that :meth:`instantiate` may be
            called again, and :meth:`debug_dump` names the lines of the program.
        encode_ahead (int, optional): The number of replays, 0 to 16, that a second thread encodes in
            advance, so that :meth:`replay` only commits one. All graphs together keep at most 16; the
            graph that was replayed least recently drops its own. If a graph keeps none,
            ``why_not_ahead`` of :meth:`stats` gives the reason. The default is
            the value of ``PYTORCH_MPS_GRAPH_ENCODE_AHEAD`` in the environment, or 0, because Apple
            does not document that two threads may encode an MPSGraph and an executable at once.

    Example::

        >>> # xdoctest: +REQUIRES(env:TORCH_DOCTEST_MPS)
        >>> x = torch.zeros(4, device="mps")
        >>> g = torch.mps.Graph()
        >>> with torch.mps.graph(g):
        ...     y = x * 2 + 1
        >>> x.copy_(torch.arange(4.0))
        >>> g.replay()
        >>> y.tolist()
        [1.0, 3.0, 5.0, 7.0]
    """

    def __init__(
        self,
        keep_graph: bool = False,
        encode_ahead: Optional[int] = None,
    ) -> None:
        _check_type("keep_graph", keep_graph, bool)
        _check_type("encode_ahead", encode_ahead, int, type(None))
        if encode_ahead is None:
            value = os.environ.get("PYTORCH_MPS_GRAPH_ENCODE_AHEAD", "0")
            try:
                encode_ahead = int(value)
            except ValueError:
                raise ValueError(
                    f"PYTORCH_MPS_GRAPH_ENCODE_AHEAD must be 0 to {_MOST_AHEAD}, but is {value!r}"
                ) from None
        if not 0 <= encode_ahead <= _MOST_AHEAD:
            raise ValueError(
                f"encode_ahead must be 0 to {_MOST_AHEAD}, but is {encode_ahead}"
            )
        super().__init__(keep_graph, encode_ahead)
        self._debug_mode = keep_graph
        self._keep_graph = keep_graph
        self._is_instantiated = False
        # Captured steps of optimizers. If there are any steps or hooks, replay() calls _replay_with_program().
        self._steps: List[Any] = []
        self._hooks: Dict[str, OrderedDict[int, _Hook]] = {}
        self._retained: List[Any] = []

    def __reduce__(self) -> Any:
        raise TypeError(
            "a torch.mps.Graph can't be copied or pickled, since it holds memory of this process. Save the "
            "state_dict() of the model instead."
        )

    def capture_begin(  # type: ignore[override]
        self,
        pool: Optional[_PoolHandle] = None,
        capture_error_mode: str = "global",
        check_input_liveness: bool = True,
        *,
        freeze_host_reads: bool = False,
    ) -> None:
        r"""Begin to record the work that this thread, and autograd's threads for it, submit to the
        MPS stream. Work of other threads runs as usual, unrecorded.

        Prefer :class:`torch.mps.graph`, which calls this method and handles exceptions.

        Arguments:
            pool (optional): Token of :func:`torch.mps.graph_pool_handle` or of another graph's
                :meth:`pool`, to share its memory.
            capture_error_mode (str): ``"global"``, ``"thread_local"``, ``"relaxed"`` or ``"default"``,
                as in CUDA. All mean the same here, because work of other threads never disturbs a
                capture.
            check_input_liveness (bool): With True, a replay raises if the program no longer has a
                tensor that the block used and that existed before the capture: it was replaced, or
                cannot get new values. Memory that other graphs allocated is left out. With False, a
                replay uses the last values of such a tensor.
            freeze_host_reads (bool): By default a host read of device data (``.item()``,
                ``.cpu()``, ``nonzero()``, ...) raises. With True it runs, with one warning, and
                every replay uses the value of the capture.

        Raises:
            RuntimeError: if a capture is underway in any thread (captures can't be nested), if
                this graph already holds a capture, or if the MPS profiler is on.
            TypeError: if an argument has another type.
            ValueError: if ``capture_error_mode`` has another value.
        """
        global _underway
        _check_capture_options(
            pool,
            capture_error_mode,
            check_input_liveness=check_input_liveness,
            freeze_host_reads=freeze_host_reads,
        )
        super().capture_begin(pool, freeze_host_reads, check_input_liveness)
        self._steps = []
        self._set_asks_program(bool(self._hooks))
        self._is_instantiated = False
        _underway = weakref.ref(self)

    def capture_end(self) -> None:
        r"""End the capture. Afterwards :meth:`replay` may be called.

        Raises:
            RuntimeError: if this graph is not being captured, or if the block did work that a
                replay can't repeat. The graph is then empty.
        """
        super().capture_end()
        # The block made the others, and would make them again.
        self._steps = [step for step in self._steps if step.optimizer() is not None]
        self._run_hooks("capture_end")
        if not self._keep_graph:
            self._run_hooks("instantiate")

    def instantiate(self) -> None:
        r"""Prepare the replay of a graph that was made with ``keep_graph=True``. If you do not call this
        method, the first replay prepares it and takes longer.

        May be called again. When it raises, replays stay as they were.

        Raises:
            RuntimeError: if the graph is empty, is being captured, or was not made with
                ``keep_graph=True``.
        """
        super()._instantiate()
        self._is_instantiated = True
        self._run_hooks("instantiate")

    def register_capture_end_hook(self, hook: _Hook) -> RemovableHandle:
        r"""Let the end of each capture of this graph that succeeds call a function.

        All hooks run in the order of their registration, on the thread that ends the capture, replays or
        instantiates. If a hook raises, its exception propagates; under :class:`torch.mps.graph`, the graph
        is then empty.

        Arguments:
            hook (Callable): Takes the graph. Its result is ignored.

        Returns:
            A handle. ``handle.remove()`` removes the hook.

        Raises:
            TypeError: if ``hook`` is not callable.
        """
        return self._add_hook("capture_end", hook)

    def register_post_instantiate_hook(self, hook: _Hook) -> RemovableHandle:
        r"""Let each instantiation call a function: after the hooks of the end of a capture, or, with
        ``keep_graph=True``, in :meth:`instantiate` or the first :meth:`replay`.

        See :meth:`register_capture_end_hook` for the argument, the result and errors.
        """
        return self._add_hook("instantiate", hook)

    def register_replay_start_hook(self, hook: _Hook) -> RemovableHandle:
        r"""Let each :meth:`replay` of this graph call a function before it checks tensors and submits work.

        A hook may write new input. If it raises, nothing is submitted. If the graph is part of another graph,
        replays of that graph do not call the hook.

        See :meth:`register_capture_end_hook` for the argument, the result and errors.
        """
        return self._add_hook("replay_start", hook)

    def register_replay_end_hook(self, hook: _Hook) -> RemovableHandle:
        r"""Let each :meth:`replay` of this graph call a function after it submitted the work, which the GPU may
        not have finished, or after it raised an error.

        See :meth:`register_replay_start_hook`.
        """
        return self._add_hook("replay_end", hook)

    def retain_object(self, obj: Any) -> None:
        r"""Keep a Python object until :meth:`reset`, or as long as the graph exists.

        A graph keeps the memory of the tensors that its block used, but not objects of the program.
        """
        self._retained.append(obj)

    def _add_hook(self, name: str, hook: _Hook) -> RemovableHandle:
        if not callable(hook):
            raise TypeError(f"hook must be callable, got {type(hook).__name__}")
        hooks = self._hooks.setdefault(name, OrderedDict())
        handle = RemovableHandle(hooks)
        hooks[handle.id] = hook
        self._set_asks_program(True)
        return handle

    def _run_hooks(self, name: str) -> None:
        for hook in list(self._hooks.get(name, {}).values()):
            hook(self)

    def _replay_with_program(self) -> None:
        self._run_hooks("replay_start")
        try:
            if self._keep_graph and not self._is_instantiated:
                self.instantiate()
            for step in self._steps:
                step.check()
            super()._submit()
            if is_current_stream_capturing():
                _keep_steps(self._steps)
        finally:
            self._run_hooks("replay_end")

    def register_generator_state(self, generator: torch.Generator) -> None:
        r"""Keep a generator until :meth:`reset`, so that replays draw from it even if the program drops it.

        A capture finds the generators that the block draws from. Each replay draws the numbers that the block
        would draw then, leaves the generators in the same state as the block, and raises if one is gone. Drawing
        from a generator that was made in the block raises an error.

        Arguments:
            generator (torch.Generator): A generator of the MPS device.

        Raises:
            TypeError: if ``generator`` is not a generator of the MPS device.
        """
        if not isinstance(generator, torch.Generator) or generator.device.type != "mps":
            raise TypeError(
                f"torch.mps graph: register_generator_state() takes a generator of the MPS device, got {generator!r}."
            )
        self.retain_object(generator)

    def reset(self) -> None:
        r"""Drop the recorded work and free its memory.

        Raises:
            RuntimeError: if the graph is being captured.
        """
        super().reset()
        self._steps = []
        self._set_asks_program(bool(self._hooks))
        self._retained = []

    def pool(self) -> _PoolHandle:
        r"""Return the token of the pool of this graph's capture.

        Raises:
            RuntimeError: before the first capture.
        """
        return super().pool()

    def stats(self) -> Dict[str, Any]:
        r"""Return counts of the graph's steps, memory and replays.

        Returns:
            A dict with the steps by kind: ``kernels``, ``graph_runs``, ``copies``, ``fills``,
            ``kernel_objects`` (such as matrix factorizations) and ``host_refreshes`` (CPU
            tensors that are read again, random states); ``constants`` (copies of CPU
            tensors that the block made); ``executables`` (used by the graph runs);
            ``buffers`` and ``buffer_bytes`` (memory from before the capture that the graph keeps),
            ``pool_bytes`` (memory of the pool), ``replays`` (since the
            capture), ``ready_replays`` (already encoded), ``ready_bytes`` (memory for their host data),
            ``why_not_ahead`` (a string: the reason why no replay is encoded ahead; empty if there is
            none, and before the first replay).
        """
        return super().stats()

    def enable_debug_mode(self) -> None:
        r"""Allow :meth:`debug_dump` of a graph that was not made with ``keep_graph=True``."""
        self._debug_mode = True

    def debug_dump(self, debug_path: Union[str, "os.PathLike[str]"]) -> None:
        r"""Write the steps and buffers to a file: as JSON if its name ends in ``.json``, as a page for
        a browser if it ends in ``.html``, else in the DOT language.

        All list the buffers in the order of their first use, with their size in bytes and their
        memory (``"pool"``: the graph's pool; ``"kept"``: it existed before the capture; ``"own"``:
        nothing else uses it). All list the steps in the order of a replay: kind, operator if it is
        known, the line of the program that called it (with ``keep_graph=True``), sizes, and the
        buffers in use with offsets in bytes and the access (``"read"``, ``"write"``, or ``"bind"``:
        a kernel may do either). A graph run has the dtypes and shapes of its inputs and results.

        Arguments:
            debug_path: Where to write.

        Raises:
            RuntimeError: if the graph was not made with ``keep_graph=True`` and
                :meth:`enable_debug_mode` was not called.
        """
        if not self._debug_mode:
            raise RuntimeError(
                "call enable_debug_mode() before debug_dump(), or make the graph with keep_graph=True"
            )
        dump = self._dump()
        path = os.fspath(debug_path)
        _, kind = os.path.splitext(path)
        write = {".json": as_json, ".html": as_html}.get(kind, as_dot)
        with open(path, "w", encoding="utf-8") as file:
            file.write(write(dump))


# The name that code should use.
Graph = MPSGraph


class graph(torch._C._MPSGraphContext):
    r"""Context manager that captures the MPS work of its block into an :class:`MPSGraph`.

    The operators in the block run as usual, so the tensors made there hold valid values after it
    (unlike CUDA). If the block raises, also by Ctrl-C, the graph is empty and the stream is as it
    was before.

    Arguments:
        mps_graph (torch.mps.Graph): Graph to capture into.
        pool (optional): See :meth:`MPSGraph.capture_begin`.
        stream (torch.Stream, optional): Accepted so that code written for :class:`torch.cuda.graph`
            runs: the MPS device has one stream, which is captured.
        capture_error_mode (str): See :meth:`MPSGraph.capture_begin`.
        enable_annotations (bool): Accepted for code written for CUDA. Has no effect.
        annotation_config (optional): Accepted for code written for CUDA. Has no effect.
        check_input_liveness (bool): See :meth:`MPSGraph.capture_begin`.
        freeze_host_reads (bool): See :meth:`MPSGraph.capture_begin`.
        empty_cache (bool): Whether to wait for the GPU and to give unused memory back to the system
            before the capture, as :class:`torch.cuda.graph` does. With False, a tensor of the graph
            may keep cached memory of eight times its size.

    Raises:
        TypeError: if an argument has another type, or if ``stream`` is of another device.
    """

    def __init__(
        self,
        mps_graph: MPSGraph,
        pool: Optional[_PoolHandle] = None,
        stream: Optional[torch.Stream] = None,
        capture_error_mode: str = "global",
        enable_annotations: bool = False,
        annotation_config: Any = None,
        check_input_liveness: bool = True,
        *,
        freeze_host_reads: bool = False,
        empty_cache: bool = True,
    ) -> None:
        super().__init__()
        if not isinstance(mps_graph, MPSGraph):
            raise TypeError(
                f"mps_graph must be a torch.mps.Graph, got {type(mps_graph).__name__}"
            )
        if stream is not None and not (
            isinstance(stream, torch.Stream) and stream.device.type == "mps"
        ):
            raise TypeError(
                f"stream must be None or a torch.Stream of the MPS device, but is {stream!r}"
            )
        _check_capture_options(
            pool,
            capture_error_mode,
            check_input_liveness=check_input_liveness,
            freeze_host_reads=freeze_host_reads,
            empty_cache=empty_cache,
        )
        self.mps_graph = mps_graph
        self.pool = pool
        self.capture_error_mode = capture_error_mode
        self.check_input_liveness = check_input_liveness
        self.freeze_host_reads = freeze_host_reads
        self.empty_cache = empty_cache

    # called by __enter__(), which ends the capture again if this raises after it has begun
    def _begin(self) -> Any:
        # in a capture that is underway, capture_begin() raises
        if self.empty_cache and not torch._C._mps_isCaptureUnderway():
            torch.mps.synchronize()
            # not torch.mps.empty_cache(), which may forget MPSGraphs that the capture would share
            torch._C._mps_releaseCachedMemory()
        self.mps_graph.capture_begin(
            self.pool,
            self.capture_error_mode,
            self.check_input_liveness,
            freeze_host_reads=self.freeze_host_reads,
        )


# The graph whose capture was begun last.
_underway: "Optional[weakref.ref[MPSGraph]]" = None


def _keep_steps(steps: List[Any]) -> None:
    """Let replays of the graph that is being captured check captured steps of optimizers."""
    mps_graph = _underway() if _underway else None
    if mps_graph is not None:
        mps_graph._steps += steps
        mps_graph._set_asks_program(True)


# The graph of the last graph_capture(), or None if there was none or graph_reset() dropped it; empty if that raised.
_current_graph: Optional[MPSGraph] = None


class graph_capture(graph):
    r"""Context manager that captures the MPS work of its block into a new graph, which
    :func:`graph_replay` replays. All threads share one such graph: the next ``graph_capture()`` replaces
    it, and :func:`graph_reset` drops it. If you use several graphs, or a library may also capture, keep
    yours: ``with graph_capture() as g``.

    Arguments:
        pool (optional): See :meth:`MPSGraph.capture_begin`.
        capture_error_mode (str): See :meth:`MPSGraph.capture_begin`.
        check_input_liveness (bool): See :meth:`MPSGraph.capture_begin`.
        empty_cache (bool): See :class:`graph`.
        freeze_host_reads (bool): See :meth:`MPSGraph.capture_begin`.

    Example::

        >>> # xdoctest: +REQUIRES(env:TORCH_DOCTEST_MPS)
        >>> x = torch.zeros(4, device="mps")
        >>> with torch.mps.graph_capture():
        ...     y = x.sum()
        >>> x.fill_(2)
        >>> torch.mps.graph_replay()
        >>> y.item()
        8.0
    """

    def __init__(
        self,
        pool: Optional[_PoolHandle] = None,
        capture_error_mode: str = "global",
        check_input_liveness: bool = True,
        empty_cache: bool = True,
        *,
        freeze_host_reads: bool = False,
    ) -> None:
        super().__init__(
            MPSGraph(),
            pool,
            capture_error_mode=capture_error_mode,
            check_input_liveness=check_input_liveness,
            freeze_host_reads=freeze_host_reads,
            empty_cache=empty_cache,
        )

    if TYPE_CHECKING:  # __enter__() returns what _begin() does

        def __enter__(self) -> MPSGraph:
            ...

    def _begin(self) -> MPSGraph:
        global _current_graph
        if not torch._C._mps_isCaptureUnderway():
            # before it begins: an older graph must not be replayed in place of the one that was
            # meant. A second capture meanwhile raises, and leaves the graph of the first in place.
            _current_graph = self.mps_graph
        super()._begin()
        return self.mps_graph


def graph_replay() -> None:
    r"""Replay the graph of the last :func:`graph_capture`. See :meth:`MPSGraph.replay`.

    Raises:
        RuntimeError: if there is no graph, or if it is empty because its block raised.
    """
    if _current_graph is None:
        raise RuntimeError(
            "torch.mps.graph_replay() was called without a captured graph; "
            "run a block under torch.mps.graph_capture() first"
        )
    _current_graph.replay()


def graph_reset() -> None:
    r"""Drop the graph of the last :func:`graph_capture`; :func:`graph_replay` then raises.

    This frees its memory, unless the caller keeps the graph (``as``). Does nothing if there is no
    graph.
    """
    global _current_graph
    _current_graph = None
