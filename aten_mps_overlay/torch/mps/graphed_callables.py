r"""Functions and modules whose forward and backward passes are captured graphs."""
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch.utils import _pytree as pytree

from .graphs import _PoolHandle, graph, graph_pool_handle, MPSGraph


__all__ = ["make_graphed_callables"]

_Callable = Union[torch.nn.Module, Callable[..., Any]]


class _Options(NamedTuple):
    allow_unused_input: bool
    pool: _PoolHandle
    capture_error_mode: str
    link: bool


class _Group:
    """Callables that were captured one after the other into one pool.

    Activations lie in memory that was free when the callables before it were captured: their forward
    passes may overwrite it. Backward passes can't, since a graph keeps what it reads.
    """

    def __init__(self) -> None:
        self.members: List[_Graphed] = []
        self.replays = 0

    def note_replay(self) -> int:
        self.replays += 1
        return self.replays

    def is_overwritten(self, member: "_Graphed") -> bool:
        earlier = self.members[: self.members.index(member)]
        return any(m.forward_replay > member.forward_replay for m in earlier)

    def settle(self) -> None:
        """For a forward pass in the middle of a backward pass, whose gradients it may overwrite."""
        for member in self.members:
            member.settle()


class _Graphed:
    """One callable with its graphs, and the tensors that they read and write."""

    def __init__(
        self,
        function: _Callable,
        sample_args: Tuple[Any, ...],
        options: _Options,
        group: _Group,
    ) -> None:
        self.function = function
        self.options = options
        self.group = group
        group.members.append(self)
        samples, self.in_spec = pytree.tree_flatten(sample_args)
        for sample in samples:
            if not isinstance(sample, torch.Tensor) or sample.device.type != "mps":
                raise TypeError(
                    "make_graphed_callables: sample_args may hold tensors of the MPS device "
                    f"only, but there is {_describe(sample)}"
                )
        # the graphs read these: what else a program does with the samples is of no matter
        self.inputs = [
            sample.detach().clone().requires_grad_(sample.requires_grad)
            for sample in samples
        ]
        self.parameters: Tuple[torch.Tensor, ...] = ()
        if isinstance(function, torch.nn.Module):
            _check_module(function)
            self.parameters = tuple(function.parameters())
        self.surface = (*self.inputs, *self.parameters)
        self.forward_graph = MPSGraph(link=options.link)
        self.backward_graph: Optional[MPSGraph] = None
        self.outputs: List[torch.Tensor] = []
        self.grad_outputs: List[Optional[torch.Tensor]] = []
        self.grad_inputs: List[Optional[torch.Tensor]] = []
        # the replay of the forward graph whose activations are there
        self.forward_replay = 0
        # positions of gradients that autograd got without a copy
        self.lent: List[int] = []

    def static_inputs(self) -> Any:
        return pytree.tree_unflatten(self.inputs, self.in_spec)

    def run(self) -> Any:
        return self.function(*self.static_inputs())

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
                    f"make_graphed_callables: {_describe(tensor)}, an argument or a parameter that "
                    "requires gradients, has no part in the outputs. Pass allow_unused_input=True if "
                    "that is meant."
                )
        return grads

    def set_outputs(self, outputs: Any) -> None:
        self.outputs, self.out_spec = pytree.tree_flatten(outputs)
        for output in self.outputs:
            if not isinstance(output, torch.Tensor) or output.device.type != "mps":
                raise TypeError(
                    "make_graphed_callables: a callable must return tensors of the MPS device "
                    f"only, but there is {_describe(output)}"
                )
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
            pool=self.options.pool,
            capture_error_mode=self.options.capture_error_mode,
        )

    def capture_forward(self) -> None:
        with self.capture(self.forward_graph):
            outputs = self.run()
        self.set_outputs(outputs)

    def capture_backward(self) -> None:
        if not self.needs_backward():
            return
        self.backward_graph = MPSGraph(link=self.options.link)
        with self.capture(self.backward_graph):
            grads = iter(self.run_backward())
        found = [next(grads) if t.requires_grad else None for t in self.surface]
        # each a tensor of its own: settle() gives one other memory
        self.grad_inputs = [g if g is None else g.detach() for g in found]
        # the graphs keep the memory; autograd's nodes are not needed any more
        self.outputs = [o.detach() for o in self.outputs]

    def give(self, args: Sequence[torch.Tensor]) -> None:
        """Copies arguments to where the graph reads them, but for those that are there."""
        moving = [
            (static, arg)
            for static, arg in zip(self.inputs, args)
            if not _is_same(static, arg)
        ]
        # one argument may be the memory of another
        overwritten = {_memory(static) for static, _ in moving}
        moving = [
            (static, arg.detach().clone() if _memory(arg) in overwritten else arg)
            for static, arg in moving
        ]
        for static, arg in moving:
            static.detach().copy_(arg)

    def gradients(self, ctx: Any) -> List[Optional[torch.Tensor]]:
        """Copies, since the next backward pass writes to the same memory, but of what autograd adds to ``.grad``."""
        result: List[Optional[torch.Tensor]] = []
        self.lent = []
        for i, grad in enumerate(self.grad_inputs):
            if grad is not None:
                if i >= len(self.inputs) and _is_added(
                    self.surface[i], ctx.next_functions[i][0]
                ):
                    self.lent.append(i)
                else:
                    grad = grad.clone()
            result.append(grad)
        return result

    def settle(self) -> None:
        """Gives gradients that autograd may still hold memory of their own."""
        for i in self.lent:
            grad = self.grad_inputs[i]
            assert grad is not None
            self.grad_inputs[i] = grad.detach()
            grad.data = grad.clone()
        self.lent = []

    def check_args(self, args: List[Any], spec: pytree.TreeSpec) -> None:
        if spec != self.in_spec:
            raise TypeError(
                "make_graphed_callables: the callable was captured with other arguments: "
                f"{self.in_spec}, and is called with {spec}"
            )
        for arg, static in zip(args, self.inputs):
            if (
                not isinstance(arg, torch.Tensor)
                or arg.device.type != "mps"
                or arg.shape != static.shape
                or arg.dtype != static.dtype
            ):
                raise TypeError(
                    f"make_graphed_callables: the callable was captured with {_describe(static)}, "
                    f"and is called with {_describe(arg)} in its place"
                )
            if (
                arg.requires_grad
                and not static.requires_grad
                and torch.is_grad_enabled()
            ):
                raise RuntimeError(
                    f"make_graphed_callables: {_describe(arg)} requires gradients, and its sample did "
                    "not, so that there is no backward pass for it. Give a sample that requires them."
                )

    def as_function(self) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            flat, spec = pytree.tree_flatten(args)
            self.check_args(flat, spec)
            outputs = _Replay.apply(self, *flat, *self.parameters)
            return pytree.tree_unflatten(list(outputs), self.out_spec)

        call.static_inputs = self.static_inputs()  # type: ignore[attr-defined]
        return call


class _Replay(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, state: _Graphed, *surface: torch.Tensor) -> Any:
        state.give(surface[: len(state.inputs)])
        if torch._C._current_graph_task_id() != -1:
            state.group.settle()
        state.forward_graph.replay()
        state.forward_replay = state.group.note_replay()
        ctx.state, ctx.replay = state, state.forward_replay
        ctx.versions = [static._version for static in state.inputs]
        # copies, since the next call writes to the same memory
        outputs = tuple(o.clone() for o in state.outputs)
        ctx.mark_non_differentiable(
            *(o for o, g in zip(outputs, state.grad_outputs) if g is None)
        )
        return outputs

    @staticmethod
    def backward(ctx: Any, *grads: Optional[torch.Tensor]) -> Any:
        state = ctx.state
        if torch.is_grad_enabled():
            raise RuntimeError(
                "make_graphed_callables: the backward pass of a graphed callable can't be "
                "differentiated (create_graph=True)."
            )
        if state.forward_replay != ctx.replay:
            raise RuntimeError(
                "make_graphed_callables: the callable was called again before the backward pass of "
                "an earlier call, whose activations are overwritten. Run the backward pass first, "
                "or make another graphed callable for the second call."
            )
        if state.group.is_overwritten(state):
            raise RuntimeError(
                "make_graphed_callables: a callable that stands earlier in the same tuple was called between the "
                "forward and the backward pass of this one, and has overwritten its activations. Call them in the order "
                "of the tuple, or make them by calls of their own."
            )
        if ctx.versions != [static._version for static in state.inputs]:
            raise RuntimeError(
                "make_graphed_callables: a static input was written to between the forward and the backward pass, "
                "which may need what it held. Run the backward pass first."
            )
        for static, given in zip(state.grad_outputs, grads):
            if static is not None and given is not None:
                static.copy_(given)
        state.backward_graph.replay()
        return (None, *state.gradients(ctx))


def make_graphed_callables(
    callables: Union[_Callable, Tuple[_Callable, ...]],
    sample_args: Union[Tuple[Any, ...], Tuple[Tuple[Any, ...], ...]],
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Optional[_PoolHandle] = None,
    capture_error_mode: str = "strict",
    *,
    link: bool = False,
) -> Union[_Callable, Tuple[_Callable, ...]]:
    r"""Return callables that do what the given ones do, forward and backward, by replaying graphs.

    The backward pass of a graphed callable is a graph too, which autograd runs as part of an
    ordinary backward pass. Of a module the ``forward`` is replaced, and the module itself is
    returned; it replays while it is in the training mode (:meth:`torch.nn.Module.train`) that it
    was captured in, and runs as before in the other one.

    The graphs read arguments from memory of their own, to which a call copies those that it is given.
    The attribute ``static_inputs`` of a graphed function, and of the ``forward`` of a graphed module,
    are the tensors of that memory, nested as ``sample_args``: what is written to one of them, and then
    given in its place, is not copied.

    Unlike :func:`torch.cuda.make_graphed_callables` this leaves samples, buffers (running statistics)
    and the state of the default generator as they were, returns outputs and gradients that later calls
    don't overwrite, and raises where a backward pass would use overwritten activations.

    Arguments:
        callables (torch.nn.Module or function, or a tuple of them): What to capture. Functions must
            be free of state that autograd is to know, other than their arguments. Modules must have
            no hooks on themselves, their submodules or their parameters, and no buffers that
            require gradients; hooks may be added afterwards, and only those of the module itself
            and of parameters are called.
        sample_args (tuple of tensors, or a tuple of such tuples): For each callable its arguments,
            all of them tensors of the MPS device, nested as the callable wants them. Calls must
            have arguments of the same shapes and dtypes.
        num_warmup_iters (int): How often each callable runs before it is captured.
        allow_unused_input (bool): Whether arguments and parameters may have no part in the outputs.
        pool (optional): Token of a memory pool for all graphs. By default it is a new one. Callables
            that were given together share it: where gradients are wanted, they must be called in the
            order given. For callables that were made with the same token by several calls of this
            function this is not checked.
        capture_error_mode (str): See :meth:`MPSGraph.capture_begin`.
        link (bool): Whether runs of MPSGraphs are linked, so that results need not be bit-equal to
            those of the callables. See :class:`MPSGraph`.

    Returns:
        The graphed callable, or a tuple of them.

    Raises:
        RuntimeError: for a module with hooks or with buffers that require gradients, if an
            argument is unused and ``allow_unused_input`` is not set, under autocast with its cache,
            and for all that a capture refuses. In calls: if an argument requires gradients and its
            sample did not. In backward passes: if another call or a write to a static input may have
            overwritten what they need, and for gradients of gradients.
        TypeError: for arguments or results that are not tensors of the MPS device.

    Example::

        >>> # xdoctest: +REQUIRES(env:TORCH_DOCTEST_MPS)
        >>> model = torch.nn.Linear(4, 2, device="mps")
        >>> model = torch.mps.make_graphed_callables(model, (torch.zeros(3, 4, device="mps"),))
        >>> loss = model(torch.ones(3, 4, device="mps")).sum()
        >>> loss.backward()
        >>> model.weight.grad.tolist()
        [[3.0, 3.0, 3.0, 3.0], [3.0, 3.0, 3.0, 3.0]]
    """
    if torch.is_autocast_enabled("mps") and torch.is_autocast_cache_enabled():
        raise RuntimeError(
            "make_graphed_callables: the casts that autocast caches would be missing from the graphs. "
            "Use torch.autocast(..., cache_enabled=False)."
        )
    is_tuple = isinstance(callables, tuple)
    functions: Sequence[_Callable] = callables if is_tuple else (callables,)  # type: ignore[assignment]
    args: Sequence[Tuple[Any, ...]] = sample_args if is_tuple else (sample_args,)
    if len(functions) != len(args):
        raise ValueError(
            f"make_graphed_callables: there are {len(functions)} callables, but sample_args for {len(args)}"
        )
    options = _Options(
        allow_unused_input, pool or graph_pool_handle(), capture_error_mode, link
    )
    group = _Group()
    states = [_Graphed(f, a, options, group) for f, a in zip(functions, args)]
    with _unchanged(functions):
        for state in states:
            state.warm_up(num_warmup_iters)
        for state in states:
            state.capture_forward()
        for state in reversed(states):
            state.capture_backward()
    graphed = tuple(_install(s) for s in states)
    return graphed if is_tuple else graphed[0]


def _install(state: _Graphed) -> _Callable:
    graphed = state.as_function()
    module = state.function
    if not isinstance(module, torch.nn.Module):
        return graphed
    mode, forward = module.training, module.forward

    def replaced(*args: Any, **kwargs: Any) -> Any:
        if module.training != mode:
            return forward(*args, **kwargs)
        if kwargs:
            raise TypeError(
                "make_graphed_callables: a graphed module takes positional arguments only"
            )
        return graphed(*args)

    replaced.static_inputs = state.static_inputs()  # type: ignore[attr-defined]
    module.forward = replaced  # type: ignore[method-assign]
    return module


class _unchanged:
    """Gives buffers and the default generator back what they had."""

    def __init__(self, functions: Sequence[_Callable]) -> None:
        buffers = [
            b for f in functions if isinstance(f, torch.nn.Module) for b in f.buffers()
        ]
        self.saved = [(b, b.detach().clone()) for b in buffers]
        self.state = torch.mps.get_rng_state()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: Any) -> None:
        torch.mps.set_rng_state(self.state)
        with torch.no_grad():
            for buffer, value in self.saved:
                buffer.copy_(value)


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return (
        _memory(one) == _memory(other)
        and one.storage_offset() == other.storage_offset()
        and one.stride() == other.stride()
    )


def _is_added(parameter: torch.Tensor, node: Any) -> bool:
    """Whether the backward pass adds what the node gets to a ``.grad`` that is there, and nothing else sees it."""
    if parameter.grad is None or parameter._backward_hooks:
        return False
    try:
        return torch._C._will_engine_execute_node(node)
    except RuntimeError:
        return False  # torch.autograd.grad() wants it


def _check_module(module: torch.nn.Module) -> None:
    for m in module.modules():
        if (
            m._forward_hooks
            or m._forward_pre_hooks
            or m._backward_hooks
            or m._backward_pre_hooks
        ):
            raise RuntimeError(
                f"make_graphed_callables: the {type(m).__name__} has hooks, which replays would not "
                "call. Add hooks after the call."
            )
    for name, buffer in module.named_buffers():
        if buffer.requires_grad:
            raise RuntimeError(
                f"make_graphed_callables: the buffer {name!r} requires gradients. Make it a parameter."
            )
    for name, parameter in module.named_parameters():
        if parameter._backward_hooks:
            raise RuntimeError(
                f"make_graphed_callables: the parameter {name!r} has hooks, which the capture would "
                "call. Add hooks after the call."
            )
        if parameter.device.type != "mps":
            raise RuntimeError(
                f"make_graphed_callables: the parameter {name!r} is on {parameter.device}, not on the MPS device"
            )


def _describe(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return f"a {type(value).__name__}"
    return f"a {value.dtype} tensor of shape {list(value.shape)} on {value.device.type}"
