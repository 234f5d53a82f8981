r"""Functions and modules whose forward and backward passes are captured graphs."""

import gc
import inspect
import types
import warnings
from typing import (
    Any,
    Callable,
    Dict,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
    Union,
)

import torch
import torch.autograd.forward_ad as forward_ad
from torch.utils import _pytree as pytree

from ._graphed_module import check_module, check_plain, describe, name_of, state_of
from ._static_memory import (
    GraphPool,
    replay_of,
    SAME,
    StateBefore,
    StaticMemory,
    UNLIKE,
)
from .graphs import _check_capture_options, _check_type, _PoolHandle, graph, MPSGraph


__all__ = ["make_graphed_callables"]

_Callable = Union[torch.nn.Module, Callable[..., Any]]


# Results that a replay does not make: they stay as they were in the capture.
_CONSTANTS = (type(None), bool, int, float, complex, str)


class _Options(NamedTuple):
    allow_unused_input: bool
    freeze_host_reads: bool


class _Graphed:
    """One callable with its graphs, and the tensors that they read and write: what a function becomes, or the ``forward``
    of a module."""

    def __init__(
        self,
        function: _Callable,
        sample_args: Tuple[Any, ...],
        options: _Options,
        pool: GraphPool,
    ) -> None:
        self.function = function
        self.options = options
        self.pool = pool
        samples, self.in_spec = pytree.tree_flatten(sample_args)
        self.takes_tensors = all(spec.is_leaf() for spec in self.in_spec.children_specs)
        for sample in samples:
            _check_tensor(sample, "sample_args must contain")
        # copies, since the program may use its samples for something else
        self.inputs = [
            sample.detach().clone().requires_grad_(sample.requires_grad)
            for sample in samples
        ]
        self.static_inputs = pytree.tree_unflatten(self.inputs, self.in_spec)
        self.original: Callable[..., Any] = function
        self.parameters: Tuple[torch.Tensor, ...] = ()
        self.buffers: Tuple[torch.Tensor, ...] = ()
        self.module_state: Tuple[Any, ...] = ()
        if isinstance(function, torch.nn.Module):
            check_module(function)
            self.original = function.forward
            if isinstance(self.original, _Graphed):
                # of an earlier call, whose graphs go
                self.original = self.original.original
            self.training = function.training
            self.parameters = tuple(function.parameters())
            self.buffers = tuple(function.buffers())
        self.surface = (*self.inputs, *self.parameters)
        self.frozen = [p for p in self.parameters if not p.requires_grad]
        self.autocast = torch._C._mps_autocast()
        self.flags = torch._C._mps_flags()
        self.forward_graph = MPSGraph()
        # A frozen parameter changes what autograd asks for, not what the graphs compute.
        self.forward_graph._set_of_callable()
        self.forward_graph._draw_from_default_only()
        self.backward_graph: Optional[MPSGraph] = None
        self.outputs: List[torch.Tensor] = []
        self.grad_outputs: List[Optional[torch.Tensor]] = []
        self.grad_inputs: List[Optional[torch.Tensor]] = []
        self.was_told = False

    # In the place of the callable

    def __copy__(self) -> "_Graphed":
        return self

    def __deepcopy__(self, memo: Dict[int, Any]) -> Callable[..., Any]:
        """A copy of a module gets its own eager ``forward``. A copy of a function is the same function."""
        if not isinstance(self.function, torch.nn.Module):
            return self
        copy = memo.get(id(self.function))
        if copy is None or not isinstance(self.original, types.MethodType):
            return self.original
        return types.MethodType(self.original.__func__, copy)

    def __reduce__(self) -> Any:
        raise TypeError(
            f"make_graphed_callables: the graphed {name_of(self.function)} can't be pickled, since its graphs belong to "
            "this process. Save the state_dict() of the model instead."
        )

    def install(self) -> _Callable:
        if not isinstance(self.function, torch.nn.Module):
            return self
        self.function.forward = self  # type: ignore[method-assign]
        self.module_state = state_of(self.function)
        return self.function

    # Capture

    def run(self) -> Any:
        # A callable may change what its arguments are nested in.
        return self.function(*pytree.tree_unflatten(self.inputs, self.in_spec))

    def run_backward(self) -> Tuple[Optional[torch.Tensor], ...]:
        inputs = [t for t in self.surface if t.requires_grad]
        grads = torch.autograd.grad(
            outputs=[o for o in self.outputs if o.requires_grad],
            inputs=inputs,
            grad_outputs=[g for g in self.grad_outputs if g is not None],
            allow_unused=True,
        )
        for tensor, grad in zip(inputs, grads):
            if grad is None and not self.options.allow_unused_input:
                raise RuntimeError(
                    f"make_graphed_callables: {describe(tensor)}, an argument or a parameter that "
                    "requires gradients, has no part in the outputs. Pass allow_unused_input=True if "
                    "that is meant."
                )
        return grads

    def set_outputs(self, outputs: Any) -> None:
        for tensor in self.inputs:
            if tensor.grad_fn is not None:
                raise RuntimeError(
                    f"make_graphed_callables: the callable writes a value that requires gradients to its argument, "
                    f"{describe(tensor)}. A replay can't give the caller's tensor a backward pass for that value. Return "
                    "the value instead."
                )
        flat, self.out_spec = pytree.tree_flatten(outputs)
        for output in flat:
            if not isinstance(output, _CONSTANTS):
                _check_tensor(
                    output, "a callable must return None, numbers, strings and"
                )
        # by position: a result that is an argument, a parameter or a buffer is that tensor in each call
        known = {id(t): i for i, t in enumerate((*self.surface, *self.buffers))}
        self.passed_on = {
            k: known[id(output)] for k, output in enumerate(flat) if id(output) in known
        }
        self.template = [o if isinstance(o, _CONSTANTS) else None for o in flat]
        self.replayed = [
            k
            for k, output in enumerate(flat)
            if k not in self.passed_on and not isinstance(output, _CONSTANTS)
        ]
        self.outputs = [flat[k] for k in self.replayed]
        self.grad_outputs = [
            torch.zeros_like(o) if o.requires_grad else None for o in self.outputs
        ]

    def needs_backward(self) -> bool:
        return any(t.requires_grad for t in self.surface) and any(
            o.requires_grad for o in self.outputs
        )

    def warm_up(self, iterations: int) -> None:
        for _ in range(iterations):
            self.set_outputs(self.run())
            if self.needs_backward():
                self.run_backward()
        self.outputs, self.grad_outputs = [], []

    def capture(self, mps_graph: MPSGraph) -> graph:
        return graph(
            mps_graph,
            pool=self.pool.handle,
            freeze_host_reads=self.options.freeze_host_reads,
        )

    def capture_forward(self) -> None:
        used = [*self.inputs, *self.parameters, *self.buffers]
        versions = torch._C._mps_versionsOf(used)
        with self.capture(self.forward_graph):
            outputs = self.run()
        self.set_outputs(outputs)
        # to which autograd would give gradients, and a replay would not
        surface = {id(t) for t in self.surface}
        self.has_other_leaves = any(_leaves_of(o) - surface for o in self.outputs)
        self.check_left_behind()
        versions_now = torch._C._mps_versionsOf(used)
        written = [i for i, v in enumerate(versions_now) if v != versions[i]]
        count = len(self.inputs)
        self.written = [i for i in written if i < count]
        self.written_memory = {_memory(used[i]) for i in written if i >= count}
        for output in self.outputs:
            is_of_argument = output.numel() > 0 and any(
                _memory(output) == _memory(t) for t in self.inputs
            )
            if is_of_argument or self.forward_graph._keeps(output):
                raise RuntimeError(
                    f"make_graphed_callables: the callable returns {describe(output)}, which is a view of an argument "
                    "or of another tensor from before the capture, but replays return copies. Return its clone()."
                )
        self.replay_forward_graph = replay_of(self.forward_graph)
        self.memory = StaticMemory(self.pool, self.inputs)
        self.aliases = len({_memory(o) for o in self.outputs}) < len(self.outputs)

    def check_left_behind(self) -> None:
        """Raises if the program got a tensor of the block in another way than as a result."""
        if self.left_behind():
            gc.collect()  # the rest of a cycle
            for text in self.left_behind():
                raise RuntimeError(
                    f"make_graphed_callables: {name_of(self.function)} keeps {text} which is none of its results: "
                    "replays would overwrite it, or leave it as it is. Return it as a result."
                )

    def left_behind(self) -> List[str]:
        """Describes the tensors of the block that the program has, without its results."""
        results = {id(output) for output in self.outputs}
        return [
            text
            for tensor, text in self.forward_graph._results_in_use()
            if id(tensor) not in results and not _is_of_autograd(tensor)
        ]

    def capture_backward(self) -> None:
        if self.needs_backward():
            leaves = [_leaves_of(output) for output in self.outputs]
            # for each gradient, the outputs that it comes from
            self.sources = [
                [k for k, reached in enumerate(leaves) if id(t) in reached]
                for t in self.surface
            ]
            # and for each output, what of the surface it comes from
            self.surface_of = [
                [i for i, reached in enumerate(self.sources) if k in reached]
                for k in range(len(self.outputs))
            ]
            self.backward_graph = MPSGraph()
            self.backward_graph._set_of_callable()
            self.backward_graph._draw_from_default_only()
            with self.capture(self.backward_graph):
                grads = iter(self.run_backward())
            found = [next(grads) if t.requires_grad else None for t in self.surface]
            self.grad_inputs = [g if g is None else g.detach() for g in found]
            self.read_by_backward = [
                t
                for t in (*self.surface, *self.buffers)
                if self.backward_graph._keeps(t)
            ]
            self.replay_backward_graph = replay_of(self.backward_graph)
            self.backward_memory = StaticMemory(self.pool, [])
        # the graphs keep the memory; autograd's nodes are not needed any more
        self.outputs = [o.detach() for o in self.outputs]

    # Calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        difference = self.difference()
        if difference is not None:
            return self.run_eagerly(difference, args, kwargs)
        given = args, kwargs
        if kwargs:
            bound = inspect.signature(self.original).bind(*args, **kwargs)
            args, kwargs = bound.args, bound.kwargs
        flat, fits = list(args), not kwargs
        if not self.takes_tensors or len(flat) != len(self.inputs):
            flat, spec = pytree.tree_flatten(args)
            fits = fits and spec == self.in_spec
        relations = self.check_args(flat) if fits else [UNLIKE]
        if UNLIKE in relations:
            return self.run_eagerly(
                "the number, nesting, shapes or dtypes of its arguments differ from those of sample_args",
                *given,
            )
        if self.overlaps_written(flat):
            return self.run_eagerly(
                "an argument shares memory with another one, a parameter or a buffer that it writes to",
                *given,
            )
        if not torch.is_grad_enabled():
            outputs = self.replay(flat, relations)
        elif self.backward_graph is not None:
            outputs = list(_Replay.apply(self, relations, *flat, *self.parameters))
        else:
            with torch.no_grad():
                outputs = self.replay(flat, relations)
        if len(self.replayed) < len(self.template):
            results: List[Any] = list(self.template)
            for k, output in zip(self.replayed, outputs):
                results[k] = output
            for k, i in self.passed_on.items():
                results[k] = (*flat, *self.parameters, *self.buffers)[i]
            outputs = results
        return pytree.tree_unflatten(outputs, self.out_spec)

    def overlaps_written(self, args: Sequence[torch.Tensor]) -> bool:
        """Tells whether a write would change another argument, which has separate memory in a replay."""
        return any(
            i != j and _overlap(args[i], args[j])
            for i in self.written
            for j in range(len(args))
        ) or (
            len(self.written_memory) > 0
            and any(_memory(arg) in self.written_memory for arg in args)
        )

    def run_eagerly(self, why: str, args: Any, kwargs: Any) -> Any:
        """Tells why, once, if there is something to tell."""
        if why and not self.was_told:
            self.was_told = True
            warnings.warn(
                f"make_graphed_callables: {name_of(self.function)} runs eagerly: {why}. Call make_graphed_callables again "
                "to get replays."
            )
        return self.original(*args, **kwargs)

    def difference(self) -> Optional[str]:
        """Tells why the callable must run eagerly, in a word if the user is to know."""
        if torch._C._mps_isCurrentStreamCapturing():
            return ""  # it becomes part of that graph
        if (
            forward_ad._current_level >= 0
            or torch._C._functorch.peek_interpreter_stack() is not None
        ):
            return ""  # under torch.func or with tangents, of which the graphs know nothing
        module = self.function
        if isinstance(module, torch.nn.Module):
            if module.training != self.training:
                return ""
            if not torch._C._mps_areUnchanged(self.module_state):
                return "one of its parameters, buffers, submodules, hooks or public attributes changed after the capture"
            if self.frozen and torch._C._mps_requireGradients(self.frozen):
                return "a parameter that was frozen in the capture requires gradients"
        if self.has_other_leaves and torch.is_grad_enabled():
            return "it uses a tensor that requires gradients and is neither an argument nor a parameter"
        if torch._C._mps_autocast() != self.autocast:
            return "autocast is not set as in the capture"
        if torch._C._mps_flags() != self.flags:
            return "a flag (default dtype, matmul precision, SDPA, deterministic algorithms) changed after the capture"
        return None

    def check_args(self, args: List[Any]) -> List[int]:
        """Returns the relations of the arguments to the static inputs."""
        relations = self.memory.relations(args)
        for arg, static, relation in zip(args, self.inputs, relations):
            if (
                relation != UNLIKE
                and arg.requires_grad
                and not static.requires_grad
                and torch.is_grad_enabled()
            ):
                raise RuntimeError(
                    f"make_graphed_callables: {describe(arg)} requires gradients, and its sample did "
                    "not, so there is no backward pass for it. Pass a sample with requires_grad=True."
                )
        return relations

    def replay(
        self, args: Sequence[torch.Tensor], relations: List[int], ctx: Any = None
    ) -> List[torch.Tensor]:
        """Returns copies of the outputs, since the next call writes to the same memory."""
        with self.pool.lock:
            self.memory.copy_in(args, relations)
            self.memory.end_loans()
            self.replay_forward_graph()
            for i in self.written:
                if relations[i] != SAME:
                    args[i].copy_(self.memory.inputs[i])
            if ctx is not None:
                ctx.overwrites = self.forward_graph._overwrites()
                ctx.versions = torch._C._mps_versionsOf(self.read_by_backward)
            if self.aliases:
                return _copies_of(self.outputs)
            return [output.clone() for output in self.outputs]

    def replay_backward(
        self, ctx: Any, grads: Sequence[Optional[torch.Tensor]]
    ) -> List[Optional[torch.Tensor]]:
        assert self.backward_graph is not None
        with self.pool.lock:
            self.check_activations(ctx)
            self.backward_memory.end_loans()
            for static, grad in zip(self.grad_outputs, grads):
                if static is not None:
                    static.zero_() if grad is None else static.copy_(grad)
            self.replay_backward_graph()
            wanted = ctx.needs_input_grad[2:]
            if any(grad is None for grad in grads):
                wanted = [
                    is_wanted and any(grads[k] is not None for k in sources)
                    for is_wanted, sources in zip(wanted, self.sources)
                ]
            return [
                self.gradient(i) if is_wanted else None
                for i, is_wanted in enumerate(wanted)
            ]

    def check_activations(self, ctx: Any) -> None:
        if torch._C._mps_isCurrentStreamCapturing():
            raise RuntimeError(
                "make_graphed_callables: the backward pass of a call before the capture can't be captured, since "
                "later calls overwrite its activations. Call the graphed callable in the capture, too."
            )
        assert self.backward_graph is not None
        if self.forward_graph._overwrites() != ctx.overwrites:
            raise RuntimeError(
                "make_graphed_callables: the activations of this call were overwritten before its backward pass. "
                "Either the callable was called again, or an earlier graph of the same pool was replayed. Run the "
                "backward pass first, or give each callable a separate pool."
            )
        versions = torch._C._mps_versionsOf(self.read_by_backward)
        for tensor, old, new in zip(self.read_by_backward, ctx.versions, versions):
            if old != new:
                raise RuntimeError(
                    f"make_graphed_callables: {describe(tensor)}, which the backward pass needs, was written to "
                    f"between the forward and the backward pass: it is at version {new}, expected version {old}. Run "
                    "the backward pass first."
                )

    def gradient(self, i: int) -> Optional[torch.Tensor]:
        """Returns a copy, or lends the gradient where autograd is going to add it to a ``.grad``."""
        grad = self.grad_inputs[i]
        if grad is None:
            return None
        if i >= len(self.inputs) and self.surface[i].grad is not None:
            return self.backward_memory.lend(grad)
        return grad.clone()


class _Replay(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, state: _Graphed, relations: List[int], *surface: torch.Tensor
    ) -> Any:
        ctx.state = state
        ctx.set_materialize_grads(False)
        outputs = state.replay(surface[: len(state.inputs)], relations, ctx)
        # an argument or parameter may need no gradients now
        ctx.mark_non_differentiable(
            *(
                output
                for k, output in enumerate(outputs)
                if not any(surface[i].requires_grad for i in state.surface_of[k])
            )
        )
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Optional[torch.Tensor]) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "make_graphed_callables: the backward pass of a graphed callable can't be "
                "differentiated (create_graph=True)."
            )
        return (None, None, *ctx.state.replay_backward(ctx, grads))


def make_graphed_callables(
    callables: Union[_Callable, Tuple[_Callable, ...]],
    sample_args: Union[Tuple[Any, ...], Tuple[Tuple[Any, ...], ...]],
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Optional[_PoolHandle] = None,
    capture_error_mode: str = "global",
    *,
    freeze_host_reads: bool = False,
) -> Union[_Callable, Tuple[_Callable, ...]]:
    r"""Return callables that replay captured forward and backward passes of ``callables``.

    The backward pass of a graphed callable is also a graph, which autograd runs as part of an
    ordinary backward pass. For a module, this replaces its ``forward`` and returns the module. The
    module replays as long as it is unchanged. It runs eagerly in the other training mode
    (:meth:`torch.nn.Module.train`). It also runs eagerly, with one warning, if parameters, buffers,
    submodules or their public attributes or hooks changed, if a parameter was unfrozen, or if autocast has other
    settings. A ``deepcopy`` of the module runs eagerly. Inside another capture, a call is
    recorded operator by operator.

    The graphs read their arguments from separate memory, and a call copies its arguments there.
    The attribute ``static_inputs`` of a graphed function, or of a graphed module's ``forward``, has these
    tensors, nested as ``sample_args``. If you pass one of them, it is not copied.

    Unlike :func:`torch.cuda.make_graphed_callables`, this restores samples, buffers (running
    statistics) and the state of the default generator. Later calls do not overwrite outputs and
    gradients. A backward pass raises if it would use overwritten activations or weights.

    Arguments:
        callables (torch.nn.Module or function, or a tuple of them): The callables to capture. If a
            function uses tensors that require gradients, they must be its arguments. Modules must
            have no hooks on themselves, their submodules or their parameters, and no buffers that
            require gradients. Hooks may be added afterwards to the module itself and to parameters.
        sample_args (tuple of tensors, or a tuple of such tuples): The arguments of each callable,
            tensors of the MPS device, nested as the callable takes them. A call with other shapes or
            dtypes runs eagerly, such as one with the last and smaller batch, with one warning for
            all. Calls may pass arguments by keyword.
        num_warmup_iters (int): The number of runs of each callable before its capture.
        allow_unused_input (bool): With True, arguments and parameters need not affect the outputs.
        pool (optional): Token of a memory pool for all graphs, by default a new one. If a graph of
            the pool is replayed between a forward and a backward pass, it may overwrite activations.
            The backward pass then raises.
        capture_error_mode (str): See :meth:`MPSGraph.capture_begin`.
        freeze_host_reads (bool): See :meth:`MPSGraph.capture_begin`.

    Returns:
        The graphed callable, or a tuple of them.

    Raises:
        RuntimeError: for a module with hooks, with buffers that require gradients or with tensors made
            under :func:`torch.inference_mode`. Also if an argument is unused and
            ``allow_unused_input`` is not set, if a result is a view of an argument, a parameter or a
            buffer, and if the capture raises. A call raises if an argument requires gradients
            and its sample did not. A backward pass raises if activations, weights or static
            inputs that it needs were overwritten, if it runs in a later capture, and if its gradients are
            differentiated again. The capture raises, too, if the callable keeps a tensor that it
            made and does not return, for example as an attribute of the module.
        ValueError: if there are not as many samples as callables.
        TypeError: for options of a wrong type, for samples that are not plain MPS tensors, and for
            results that are neither that nor None, numbers or strings, which stay as in the capture.

    Example::

        >>> # xdoctest: +REQUIRES(env:TORCH_DOCTEST_MPS)
        >>> model = torch.nn.Linear(4, 2, device="mps")
        >>> model = torch.mps.make_graphed_callables(model, (torch.zeros(3, 4, device="mps"),))
        >>> loss = model(torch.ones(3, 4, device="mps")).sum()
        >>> loss.backward()
        >>> model.weight.grad.tolist()
        [[3.0, 3.0, 3.0, 3.0], [3.0, 3.0, 3.0, 3.0]]
    """
    _check_capture_options(
        pool,
        capture_error_mode,
        allow_unused_input=allow_unused_input,
        freeze_host_reads=freeze_host_reads,
    )
    _check_type("num_warmup_iters", num_warmup_iters, int)
    is_tuple = isinstance(callables, tuple)
    functions: Sequence[_Callable] = callables if is_tuple else (callables,)  # type: ignore[assignment]
    args: Sequence[Tuple[Any, ...]] = sample_args if is_tuple else (sample_args,)
    for function in functions:
        if not callable(function):
            raise TypeError(
                f"callables must be a function, a module or a tuple of them, got {type(function).__name__}"
            )
    _check_type("sample_args", sample_args, tuple)
    for sample in args:
        _check_type("sample_args of each callable", sample, tuple)
    if len(functions) != len(args):
        raise ValueError(
            f"make_graphed_callables: there are {len(functions)} callables, but sample_args for {len(args)}"
        )
    options = _Options(allow_unused_input, freeze_host_reads)
    memory = GraphPool.of(pool)
    # with gradients, whatever mode the caller is in: later calls may be in another one
    with torch.inference_mode(False):
        states = [_Graphed(f, a, options, memory) for f, a in zip(functions, args)]
        before = StateBefore([b for state in states for b in state.buffers])
        try:
            for state in states:
                state.warm_up(num_warmup_iters)
            for state in states:
                state.capture_forward()
            for state in reversed(states):
                state.capture_backward()
        finally:
            before.bring_back()
    graphed = tuple(state.install() for state in states)
    return graphed if is_tuple else graphed[0]


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    def end_of(tensor: torch.Tensor) -> int:
        last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride()))
        return (int(tensor.storage_offset()) + last + 1) * tensor.itemsize

    return (
        _memory(one) == _memory(other)
        and one.numel() > 0
        and other.numel() > 0
        and one.storage_offset() * one.itemsize < end_of(other)
        and other.storage_offset() * other.itemsize < end_of(one)
    )


def _is_of_autograd(tensor: torch.Tensor) -> bool:
    """Whether only the context of an autograd.Function has it: that goes when the results go."""
    owners = (
        o
        for r in gc.get_referrers(tensor)
        if isinstance(r, dict)
        for o in gc.get_referrers(r)
    )
    return any(
        isinstance(owner, torch.autograd.function.FunctionCtx) for owner in owners
    )


def _copies_of(tensors: Sequence[torch.Tensor]) -> List[torch.Tensor]:
    """Copies each memory once, so that copies share memory where the tensors do."""
    copies: Dict[int, torch.Tensor] = {}
    results = []
    for tensor in tensors:
        memory = _memory(tensor)
        if memory not in copies:
            length = tensor.untyped_storage().nbytes() // tensor.itemsize
            whole = _without_flags(tensor).as_strided((length,), (1,), 0)
            copies[memory] = whole.clone()
        copy = copies[memory].view(tensor.dtype)
        copy = copy.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
        copy = copy.conj() if tensor.is_conj() else copy
        results.append(torch._neg_view(copy) if tensor.is_neg() else copy)
    return results


def _without_flags(tensor: torch.Tensor) -> torch.Tensor:
    """The numbers as they lie in memory."""
    tensor = tensor.conj() if tensor.is_conj() else tensor
    return torch._neg_view(tensor) if tensor.is_neg() else tensor


def _leaves_of(output: torch.Tensor) -> Set[int]:
    """The identities of the tensors to which a backward pass from the output hands gradients."""
    leaves: Set[int] = set()
    seen = set()
    nodes = [output.grad_fn]
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            leaves.add(id(node.variable))
        nodes += [following for following, _ in node.next_functions]
    return leaves


def _check_tensor(value: Any, rule: str) -> None:
    if not isinstance(value, torch.Tensor) or value.device.type != "mps":
        raise TypeError(
            f"make_graphed_callables: {rule} MPS tensors only, got {describe(value)}"
        )
    check_plain(value, describe(value))
