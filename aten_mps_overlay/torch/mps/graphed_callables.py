r"""Functions and modules whose forward and backward passes are captured graphs."""
from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

import torch
from torch.utils import _pytree as pytree

from .graphs import _PoolHandle, graph, graph_pool_handle, MPSGraph


__all__ = ["make_graphed_callables"]

_Callable = Union[torch.nn.Module, Callable[..., Any]]


class _Graphed:
    """One callable with its graphs, and the tensors that they read and write."""

    def __init__(
        self,
        function: _Callable,
        sample_args: Tuple[Any, ...],
        allow_unused_input: bool,
        pool: _PoolHandle,
        link: bool,
    ) -> None:
        self.function = function
        self.allow_unused_input = allow_unused_input
        self.pool = pool
        self.link = link
        samples, self.in_spec = pytree.tree_flatten(sample_args)
        for sample in samples:
            if not isinstance(sample, torch.Tensor) or sample.device.type != "mps":
                raise TypeError(
                    "make_graphed_callables: sample_args may hold tensors of the MPS device "
                    f"only, but there is {_describe(sample)}"
                )
        # the graphs read these: nobody else can resize or replace them
        self.inputs = [
            sample.detach().clone().requires_grad_(sample.requires_grad)
            for sample in samples
        ]
        self.parameters: Tuple[torch.Tensor, ...] = ()
        if isinstance(function, torch.nn.Module):
            _check_module(function)
            self.parameters = tuple(function.parameters())
        self.surface = (*self.inputs, *self.parameters)
        self.forward_graph = MPSGraph(link=link)
        self.backward_graph: Optional[MPSGraph] = None
        self.outputs: List[torch.Tensor] = []
        self.grad_outputs: List[Optional[torch.Tensor]] = []
        self.grad_inputs: List[Optional[torch.Tensor]] = []
        # counts replays of the forward graph: a backward replay needs the last one's activations
        self.generation = 0

    def run(self) -> Any:
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
            if grad is None and not self.allow_unused_input:
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

    def capture_forward(self) -> None:
        with graph(self.forward_graph, pool=self.pool):
            outputs = self.run()
        self.set_outputs(outputs)

    def capture_backward(self) -> None:
        if not self.needs_backward():
            return
        self.backward_graph = MPSGraph(link=self.link)
        with graph(self.backward_graph, pool=self.pool):
            grads = iter(self.run_backward())
        self.grad_inputs = [
            next(grads) if t.requires_grad else None for t in self.surface
        ]
        # the graphs keep the memory; autograd's nodes are not needed any more
        self.outputs = [o.detach() for o in self.outputs]

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

        return call


class _Replay(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, state: _Graphed, *surface: torch.Tensor) -> Any:
        for static, given in zip(state.inputs, surface):
            static.detach().copy_(given)
        state.forward_graph.replay()
        state.generation += 1
        ctx.state, ctx.generation = state, state.generation
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
        if state.generation != ctx.generation:
            raise RuntimeError(
                "make_graphed_callables: the callable was called again before the backward pass of "
                "an earlier call, whose activations are overwritten. Run the backward pass first, "
                "or make another graphed callable for the second call."
            )
        for static, given in zip(state.grad_outputs, grads):
            if static is not None and given is not None:
                static.copy_(given)
        state.backward_graph.replay()
        return (None, *(g if g is None else g.clone() for g in state.grad_inputs))


def make_graphed_callables(
    callables: Union[_Callable, Tuple[_Callable, ...]],
    sample_args: Union[Tuple[Any, ...], Tuple[Tuple[Any, ...], ...]],
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Optional[_PoolHandle] = None,
    link: bool = False,
) -> Union[_Callable, Tuple[_Callable, ...]]:
    r"""Return callables that do what the given ones do, forward and backward, by replaying graphs.

    The backward pass of a graphed callable is a graph too, which autograd runs as part of an
    ordinary backward pass. Of a module the ``forward`` is replaced, and the module itself is
    returned; it replays while it is in the training mode (:meth:`torch.nn.Module.train`) that it
    was captured in, and runs as before in the other one.

    Unlike :func:`torch.cuda.make_graphed_callables` this leaves buffers (running statistics) and
    the state of the default generator as they were, returns outputs and gradients that later calls
    don't overwrite, and raises where a call would use overwritten activations.

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
        pool (optional): Token of a memory pool for all graphs. By default, the two graphs of each
            callable share one, so that callables may be called in any order; with a pool of all,
            the order of calls must be the one given, that of backward passes the reverse.
        link (bool): Whether runs of MPSGraphs are linked, so that results need not be bit-equal to
            those of the callables. See :class:`MPSGraph`.

    Returns:
        The graphed callable, or a tuple of them.

    Raises:
        RuntimeError: for a module with hooks or with buffers that require gradients, if an
            argument is unused and ``allow_unused_input`` is not set, under autocast with its cache,
            and for all that a capture refuses. In calls: if an argument requires gradients and its
            sample did not, and for gradients of gradients.
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
    states = [
        _Graphed(f, a, allow_unused_input, pool or graph_pool_handle(), link)
        for f, a in zip(functions, args)
    ]
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
