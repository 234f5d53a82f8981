r"""Capture of MPS work into graphs, and their replay: what :mod:`torch.cuda.graphs` is for CUDA."""

import os
import weakref
from typing import Any, Dict, List, Optional, Tuple, Type, TYPE_CHECKING, Union

import torch

from .._utils import _dummy_type
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

# The most runs of MPSGraphs in one executable, since the time of one compilation grows with them.
_LINK_LIMIT = 256

# The most replays that all graphs together keep encoded: kMost of MPSReadyReplays.h.
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
    r"""Return True if what the calling thread submits to the MPS stream becomes part of a graph.

    That is so in the block of a capture, and in the threads in which autograd works for it. The work
    of other threads is not recorded.
    """
    return torch._C._mps_isCurrentStreamCapturing()


def graph_pool_handle() -> _PoolHandle:
    r"""Return a token that names a memory pool, to be passed as ``pool`` to several captures.

    What a capture allocates comes from its pool; a later capture with the same pool may use again
    what is free there by then. Replay graphs that share a pool in the order of their captures: a
    replay of the first writes to memory in which the second one has its temporaries, or even its
    outputs.
    """
    return torch._C._mps_graph_pool_handle()


class MPSGraph(torch._C._MPSGraph):
    r"""A recording of GPU work that can be submitted again without running the Python code, the
    dispatcher and the operators that produced it.

    ``torch.mps.Graph`` is the same class, and the name to use: Apple's class MPSGraph is another
    thing. This name follows :class:`torch.cuda.CUDAGraph`.

    .. warning::
        Graphs are a beta feature: their interface may change.

    A replay reads and writes the memory that the tensors had during the capture. Give it new
    input by writing to those tensors in place (:meth:`torch.Tensor.copy_`, ...), and read its
    results from the tensors made in the capture. Shapes, dtypes, Python numbers and 0-dim CPU
    tensors are those of the capture. A backward pass sets a ``.grad`` that was None in the capture
    anew at each replay, as in CUDA: it does not add to it.

    The memory of a tensor that existed before the capture is kept. If its storage is moved
    (:meth:`~torch.Tensor.resize_`, ``.data = ...``), the next replay raises. If the tensor is
    *replaced* instead, as by ``load_state_dict(assign=True)``, replays go on with the old one:
    ``check_input_liveness=True`` makes them raise.

    Arguments:
        keep_graph (bool): With True, the end of a capture leaves it to :meth:`instantiate`, or to
            the first replay, to link runs of MPSGraphs and to lay down the calls of a replay;
            :meth:`instantiate` may be called again. Allows :meth:`debug_dump`, too.
        link (bool): With True, runs of MPSGraphs that follow each other are compiled to one
            executable when a capture ends, which a replay encodes in one call; results that can
            not be seen after the replay are not written to memory. Off by default: Apple's compiler
            may fuse what it sees as one, so that results need not be equal to those of the
            operators bit for bit. Needs macOS 15.0 or newer; before that there is one warning, and
            replays are as without it.
        link_limit (int): The most runs that are linked to one executable, which bounds the time
            that one compilation takes.
        encode_ahead (int, optional): How many replays another thread encodes before they are asked
            for, 0 to 16, so that :meth:`replay` only commits one. Results are the same. All graphs
            together keep at most 16; the graph that was replayed least recently loses its. Graphs
            with MPS kernel objects keep none, see :meth:`stats`. By default the value of the
            environment variable ``PYTORCH_MPS_GRAPH_ENCODE_AHEAD``, or 0: Apple does not say that
            an MPSGraph and an executable may be encoded on two threads at once.

    Example::

        >>> # xdoctest: +REQUIRES(env:TORCH_DOCTEST_MPS)
        >>> x = torch.zeros(4, device="mps")
        >>> g = torch.mps.MPSGraph()
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
        link: bool = False,
        link_limit: int = _LINK_LIMIT,
        encode_ahead: Optional[int] = None,
    ) -> None:
        _check_type("keep_graph", keep_graph, bool)
        _check_type("link", link, bool)
        _check_type("link_limit", link_limit, int)
        if link_limit < 1:
            raise ValueError(f"link_limit must be at least 1, but is {link_limit}")
        _check_type("encode_ahead", encode_ahead, int, type(None))
        if encode_ahead is None:
            encode_ahead = int(os.environ.get("PYTORCH_MPS_GRAPH_ENCODE_AHEAD", "0"))
        if not 0 <= encode_ahead <= _MOST_AHEAD:
            raise ValueError(
                f"encode_ahead must be 0 to {_MOST_AHEAD}, but is {encode_ahead}"
            )
        super().__init__(keep_graph, encode_ahead)
        self._debug_mode = keep_graph
        self._steps: List[Any] = []  # captured steps of optimizers
        self._link = link
        self._link_limit = link_limit

    def __reduce__(self) -> Any:
        raise TypeError(
            "a torch.mps.MPSGraph can't be copied or pickled, since it holds memory of this process. Save the "
            "state_dict() of the model instead."
        )

    def capture_begin(  # type: ignore[override]
        self,
        pool: Optional[_PoolHandle] = None,
        capture_error_mode: str = "global",
        check_input_liveness: bool = False,
        link: Optional[bool] = None,
        *,
        freeze_host_reads: bool = False,
    ) -> None:
        r"""Begin to record the work that this thread submits to the MPS stream, and autograd's
        threads for it. What other threads submit goes on as always, unrecorded.

        :class:`torch.mps.graph` calls this, and takes care of exceptions; prefer it.

        Arguments:
            pool (optional): Token of :func:`torch.mps.graph_pool_handle` or of another graph's
                :meth:`pool`, to share its memory.
            capture_error_mode (str): ``"global"``, ``"thread_local"``, ``"relaxed"`` or ``"default"``,
                as in CUDA. All mean the same here, since the work of other threads never disturbs
                a capture.
            check_input_liveness (bool): With True a replay raises when a tensor of the MPS device
                that existed before the capture and was used in it is gone, so that it could not
                have been given new input. Costs a look at each of them per replay.
            link (bool, optional): Whether runs of MPSGraphs are linked, see :class:`MPSGraph`. By
                default what the graph was made with.
            freeze_host_reads (bool): By default a read of device data by the host (``.item()``,
                ``.cpu()``, ``nonzero()``, ...) raises. With True it runs, with one warning, and
                every replay uses the value of the capture.

        Raises:
            RuntimeError: if a capture is underway, of whatever thread (they can't be nested), if
                this graph holds one already, or if the MPS profiler is on.
            TypeError: if an argument has another type.
            ValueError: if ``capture_error_mode`` is not one of these.
        """
        global _underway
        _check_capture_options(
            pool,
            capture_error_mode,
            check_input_liveness=check_input_liveness,
            freeze_host_reads=freeze_host_reads,
        )
        _check_type("link", link, bool, type(None))
        if link is None:
            link = self._link
        super().capture_begin(
            pool,
            freeze_host_reads,
            check_input_liveness,
            self._link_limit if link else 0,
        )
        self._steps = []
        _underway = weakref.ref(self)

    def capture_end(self) -> None:
        r"""End the capture. From here on :meth:`replay` may be called.

        Raises:
            RuntimeError: if this graph is not being captured, or if something ran that a replay
                can't repeat; the graph is empty then.
        """
        super().capture_end()

    def instantiate(self, link: Optional[bool] = None) -> None:
        r"""Lay down the calls of a replay, which a graph made with ``keep_graph=True`` does not do when
        its capture ends. If this is not called, the first replay does it, and takes longer than others.

        May be called again: later replays are as ``link`` and the environment variable
        ``PYTORCH_MPS_GRAPH_INDIRECT_COMMANDS`` say now, for instance to measure one capture with and
        without something. When it raises, replays stay as they were.

        Arguments:
            link (bool, optional): Whether runs of MPSGraphs are linked, see :class:`MPSGraph`. By
                default what the capture was begun with.

        Raises:
            RuntimeError: if the graph is empty, is being captured, or was not made with
                ``keep_graph=True``.
        """
        _check_type("link", link, bool, type(None))
        super()._instantiate(None if link is None else self._link_limit if link else 0)

    def replay(self) -> None:
        r"""Submit the recorded work once more, in order with all other work of the MPS stream.

        Returns without waiting for the GPU, unless several replays that copy much from the host are
        in flight. A graph in whose capture nothing ran on the device
        does nothing, with a warning. Inside the capture of another graph, the work becomes part
        of that one.

        Raises:
            RuntimeError: if the graph is empty or is being captured, or if something is not as it
                was in the capture: shape, strides, dtype or storage of a tensor that the block used,
                the value of a CPU tensor that it read on the host, a number in the param groups of
                an optimizer; with ``check_input_liveness``, also if a tensor is gone.
        """
        for step in self._steps:
            step.check()
        super().replay()
        if self._steps and is_current_stream_capturing():
            _keep_steps(self._steps)

    def register_generator_state(self, generator: torch.Generator) -> None:
        r"""Let captures of this graph draw random numbers from a generator.

        Each replay draws from it what the block would draw then, and leaves it in the state in which
        the block would. The default generator needs no registration.

        Arguments:
            generator (torch.Generator): A generator of the MPS device.

        Raises:
            RuntimeError: if the graph is being captured, or if the generator is of another device.
            TypeError: if ``generator`` is not a :class:`torch.Generator`.
        """
        super().register_generator_state(generator)

    def reset(self) -> None:
        r"""Drop what was recorded, and the memory that was kept for it.

        Raises:
            RuntimeError: if the graph is being captured.
        """
        super().reset()
        self._steps = []

    def pool(self) -> _PoolHandle:
        r"""Return the token of the pool that this graph was captured with.

        Raises:
            RuntimeError: before the first capture.
        """
        return super().pool()

    def stats(self) -> Dict[str, Any]:
        r"""Return counts of what the graph holds.

        Returns:
            A dict of the steps by kind, ``kernels``, ``graph_runs``, ``copies``, ``fills``,
            ``kernel_objects`` (matrix factorizations and the like) and ``host_refreshes`` (CPU
            tensors that are read again, random states); ``constants`` (of the copies, those of CPU
            tensors that the block made); ``executables`` (that the graph runs use),
            ``buffers`` and ``buffer_bytes`` (memory of others that is kept), ``pool_bytes`` (size
            of the pool), ``linked_stretches`` (of graph runs that are replayed as one executable),
            ``linked_runs`` (graph runs in them), ``link_microseconds`` (what linking took when the
            capture ended), ``replays`` (since the capture), ``ready_replays`` (that are encoded
            already), ``ready_bytes`` (memory for the host's data of these), ``why_not_ahead`` (a
            string: why none is, ``""`` before the first replay and otherwise).
        """
        return super().stats()

    def enable_debug_mode(self) -> None:
        r"""Allow :meth:`debug_dump` of a graph that was not made with ``keep_graph=True``."""
        self._debug_mode = True

    def debug_dump(self, debug_path: Union[str, "os.PathLike[str]"]) -> None:
        r"""Write what the graph holds to a file: as JSON if its name ends in ``.json``, as a page for
        a browser if it ends in ``.html``, else in the DOT language.

        All list the buffers in the order of their first use, with their size in bytes and the
        memory that they lie in (``"pool"``: that of the graph; ``"kept"``: it existed before the
        capture; ``"own"``: nothing else uses it), and the steps in the order of a replay: kind,
        operator that submitted it if that is known, the line of the program that called the
        operator (of graphs made with ``keep_graph=True``), sizes, and the buffers in use with
        offsets in bytes. Of graph runs dtypes and shapes of inputs and results stand in place of
        buffers; one that is linked has the number of its ``stretch``, and ``written`` says for each
        result whether a replay writes it to its memory (1) or not (0).

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

    The operators in the block run as they always do, so the tensors made there hold valid values
    after it (unlike CUDA). When the block raises, also by Ctrl-C, the graph is left empty and the
    stream as it was before.

    Arguments:
        mps_graph (torch.mps.MPSGraph): Graph to capture into.
        pool (optional): See :meth:`MPSGraph.capture_begin`.
        stream (torch.Stream, optional): Accepted so that code written for :class:`torch.cuda.graph`
            runs: the MPS device has one stream, which is captured.
        capture_error_mode (str): See :meth:`MPSGraph.capture_begin`.
        enable_annotations (bool): Accepted for code written for CUDA. Has no effect.
        annotation_config (optional): Accepted for code written for CUDA. Has no effect.
        check_input_liveness (bool): See :meth:`MPSGraph.capture_begin`.
        link (bool, optional): See :meth:`MPSGraph.capture_begin`.
        freeze_host_reads (bool): See :meth:`MPSGraph.capture_begin`.
        empty_cache (bool): Whether to wait for the GPU and to give unused memory back to the system
            before the capture, as :class:`torch.cuda.graph` does: memory that is cached for tensors
            outside of graphs is of no use to the pool of a graph.

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
        check_input_liveness: bool = False,
        *,
        link: Optional[bool] = None,
        freeze_host_reads: bool = False,
        empty_cache: bool = True,
    ) -> None:
        super().__init__()
        if not isinstance(mps_graph, MPSGraph):
            raise TypeError(
                f"mps_graph must be a torch.mps.MPSGraph, got {type(mps_graph).__name__}"
            )
        if stream is not None and not (
            isinstance(stream, torch.Stream) and stream.device.type == "mps"
        ):
            raise TypeError(
                "stream must be a stream of the MPS device, which has one, or None, but is "
                f"{stream!r}"
            )
        _check_capture_options(
            pool,
            capture_error_mode,
            check_input_liveness=check_input_liveness,
            freeze_host_reads=freeze_host_reads,
            empty_cache=empty_cache,
        )
        _check_type("link", link, bool, type(None))
        self.mps_graph = mps_graph
        self.pool = pool
        self.capture_error_mode = capture_error_mode
        self.check_input_liveness = check_input_liveness
        self.link = link
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
            self.link,
            freeze_host_reads=self.freeze_host_reads,
        )


# The graph whose capture was begun last.
_underway: "Optional[weakref.ref[MPSGraph]]" = None


def _keep_steps(steps: List[Any]) -> None:
    """Let replays of the graph that is being captured check captured steps of optimizers."""
    mps_graph = _underway() if _underway else None
    if mps_graph is not None:
        mps_graph._steps += steps


# The graph of the last graph_capture(), or None if there was none or graph_reset() dropped it; empty if that raised.
_current_graph: Optional[MPSGraph] = None


class graph_capture(graph):
    r"""Context manager that captures the MPS work of its block into a new graph, which
    :func:`graph_replay` replays. The module keeps the last one, of whatever thread, and its memory
    until :func:`graph_reset`. ``with graph_capture() as g`` gives the graph: keep it where several
    graphs are in use, or where a library may capture, too.

    Arguments:
        pool (optional): See :meth:`MPSGraph.capture_begin`.
        capture_error_mode (str): See :meth:`MPSGraph.capture_begin`.
        check_input_liveness (bool): See :meth:`MPSGraph.capture_begin`.
        link (bool): See :class:`MPSGraph`.
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
        check_input_liveness: bool = False,
        link: bool = False,
        empty_cache: bool = True,
        *,
        freeze_host_reads: bool = False,
    ) -> None:
        super().__init__(
            MPSGraph(link=link),
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
        RuntimeError: if there is none, or if it is empty, because its block raised.
    """
    if _current_graph is None:
        raise RuntimeError(
            "torch.mps.graph_replay() was called without a captured graph; "
            "run a block under torch.mps.graph_capture() first"
        )
    _current_graph.replay()


def graph_reset() -> None:
    r"""Let go of the graph of the last :func:`graph_capture`; :func:`graph_replay` raises from here on.

    Its memory is given back, unless the caller has named the graph (``as``), too. Does nothing if
    there is none.
    """
    global _current_graph
    _current_graph = None
