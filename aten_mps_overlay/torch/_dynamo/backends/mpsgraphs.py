"""The backend "mpsgraphs" of torch.compile: AOTAutograd's graphs run as captured graphs of the MPS device."""

import os
import warnings
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

import torch
from torch._C import DispatchKey
from torch._decomp import decomposition_table
from torch._decomp.decompositions import index_copy
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import TensorifyScalarRestartAnalysis
from torch._guards import CompileContext, TracingContext
from torch._prims_common import suggest_memory_format
from torch._subclasses.fake_impls import op_implementations_dict
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.mps._compiled_graphs import (
    CompiledGraph,
    drop_all,
    Options,
    Roles,
    SharedMemory,
)
from torch.mps._traced_graph import line_of

from .registry import register_backend


_Compiled = Callable[[List[Any]], List[Any]]


def _native_dropout(
    input: torch.Tensor, p: float, train: Optional[bool]
) -> Tuple[torch.Tensor, torch.Tensor]:
    """What dropout runs on this device. In place of the mask there is the factor of each element."""
    if train is False or p == 0:
        return input.clone(), torch.ones_like(input)
    if p == 1:
        zeros = torch.zeros_like(input)
        return input * zeros, zeros
    noise = torch.bernoulli(torch.empty_like(input), 1 - p) / (1 - p)
    return input * noise, noise


def _native_dropout_backward(
    grad_output: torch.Tensor, mask: torch.Tensor, scale: float
) -> torch.Tensor:
    # a mask that is not of _native_dropout
    return (
        grad_output * mask * scale if mask.dtype == torch.bool else grad_output * mask
    )


# Tracing puts operators in place of others that the device has no kernel for. These run what eager runs there, or what
# a program does that catches eager's error.
_OWN: Dict[Any, Callable[..., Any]] = {
    torch.ops.aten.index_copy.default: index_copy,
    torch.ops.aten.native_dropout.default: _native_dropout,
    torch.ops.aten.native_dropout_backward.default: _native_dropout_backward,
}


def _attention(
    query: torch.Tensor, key: torch.Tensor, *_args: Any, **_options: Any
) -> Any:
    """Shapes of results and scores. Without them only constant sizes can be traced, by a run of the kernel."""
    scores = query.new_empty((*query.shape[:3], key.shape[2]))
    return query.new_empty(query.shape), scores


_ATTENTION = "aten::_scaled_dot_product_attention_math_for_mps"
if not torch._C._dispatch_has_kernel_for_dispatch_key(_ATTENTION, "Meta"):
    torch.library.impl(_ATTENTION, "Meta", _attention)

_CONVOLUTION = torch.ops.aten.convolution.default
_traced_convolution = op_implementations_dict[_CONVOLUTION]


def _convolution(mode: FakeTensorMode, op: Any, *args: Any, **kwargs: Any) -> Any:
    """Since macOS 15 the result has the format of the input, which PyTorch 2.6 traces as contiguous."""
    result = _traced_convolution(mode, op, *args, **kwargs)
    names = (argument.name for argument in op._schema.arguments)
    given = dict(zip(names, args), **kwargs)
    image = given["input"]
    if (
        image.device.type == "mps"
        and image.dim() == 4
        and not given["transposed"]
        and torch.backends.mps.is_macos_or_newer(15, 0)
        and suggest_memory_format(image) == torch.channels_last
    ):
        with mode:
            return result.to(memory_format=torch.channels_last)
    return result


op_implementations_dict[_CONVOLUTION] = _convolution
FakeTensorMode.cache_clear()  # of what was traced before


def _decompositions() -> Dict[Any, Callable[..., Any]]:
    """Also of operators that the device has no kernel for, where eager raises and does not run them on the CPU."""
    if os.environ.get("PYTORCH_ENABLE_MPS_FALLBACK") == "1":
        return _OWN
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    keys = ("MPS", "CompositeExplicitAutograd", "CompositeImplicitAutograd")
    lacking = {
        op: decomposition
        for op, decomposition in decomposition_table.items()
        if isinstance(op, torch._ops.OpOverload)
        and op.namespace == "aten"
        and not any(has_kernel(op.name(), key) for key in keys)
    }
    return {**lacking, **_OWN}


@contextmanager
def _eager_operators() -> Iterator[None]:
    """Lets tracing keep operators whole, as eager runs them: their decompositions give other last bits."""
    aten = torch.ops.aten
    upsampling = (aten.upsample_linear1d, aten.upsample_bilinear2d)
    operators = [getattr(p, overload) for p in upsampling for overload in p.overloads()]
    kernels = [op.py_kernels.copy() for op in operators]
    whole: List[Any] = [aten.linear, aten.silu_backward, aten.mish_backward]
    for packet in whole:
        packet.default.decompose = lambda *args, **kwargs: NotImplemented
    try:
        for op in operators:
            for key in (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd):
                op.py_kernels.pop(key, None)
            op._dispatch_cache.clear()
        yield
    finally:
        for packet in whole:
            packet.default.__dict__.pop("decompose", None)
        for op, before in zip(operators, kernels):
            op.py_kernels.update(before)
            op._dispatch_cache.clear()


def _aot_autograd(**compilers: Any) -> Callable[..., Any]:
    """AOTAutograd, with the operators that eager runs."""
    with_decompositions = aot_autograd(decompositions=_decompositions(), **compilers)

    def traced(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        with _eager_operators():
            return with_decompositions(module, inputs)

    return traced


def linalg_svd(
    A: torch.Tensor,
    full_matrices: bool = False,
    compute_uv: bool = True,
    *,
    driver: Optional[str] = None,
) -> Any:
    """Only ``linalg_svd`` itself falls back to the CPU, not the operator that tracing puts in its place."""
    return torch.linalg.svd(A, full_matrices, driver=driver)


def mpsgraphs(
    module: torch.fx.GraphModule,
    inputs: Sequence[Any],
    options: Optional[Dict[str, Any]] = None,
) -> Callable[..., Any]:
    """Compile a graph of Dynamo. See :func:`torch.mps.compile_report` for what became of it."""
    chosen = Options.of(options)
    name = _name_of(module)
    shared = SharedMemory()
    forwards: List[CompiledGraph] = []

    def compiled(
        part: str,
        traced: torch.fx.GraphModule,
        roles: Roles,
        forward: Optional[CompiledGraph] = None,
    ) -> CompiledGraph:
        for node in traced.graph.nodes:
            if node.target is torch.ops.aten._linalg_svd.default:
                node.target = linalg_svd
        return CompiledGraph(traced, part, name, chosen, shared, roles, forward)

    def inference(traced: torch.fx.GraphModule, _args: Sequence[Any]) -> _Compiled:
        metadata = TracingContext.get().fw_metadata
        roles = Roles(set(metadata.static_input_indices), _count_results(traced))
        return _boxed(compiled("inference", traced, roles))

    def forward(traced: torch.fx.GraphModule, _args: Sequence[Any]) -> _Compiled:
        metadata = TracingContext.get().fw_metadata
        changes_metadata = any(i.mutates_storage_metadata for i in metadata.input_info)
        roles = Roles(
            set(metadata.static_input_indices),
            len(metadata.tokens) + metadata.num_forward,
            0 if changes_metadata else metadata.num_mutated_inp_runtime_indices,
        )
        forwards[:] = [compiled("forward", traced, roles)]
        return _boxed(forwards[0])

    def backward(traced: torch.fx.GraphModule, _args: Sequence[Any]) -> _Compiled:
        roles = Roles(_saved(traced), _count_results(traced))
        return _boxed(compiled("backward", traced, roles, forwards[0]))

    compile_with_autograd = _aot_autograd(
        fw_compiler=forward,
        bw_compiler=backward,
        inference_compiler=inference,
        keep_inference_input_mutations=True,
    )
    try:
        return compile_with_autograd(module, inputs)
    except TensorifyScalarRestartAnalysis:
        raise
    except Exception as error:
        # what eager runs must not raise, for whatever AOTAutograd can't trace
        reason = f"{type(error).__name__}: {error}".strip().splitlines()[0]
        warnings.warn(
            f"torch.compile(backend='mpsgraphs'): {name} runs eagerly, since AOTAutograd can't trace it: {reason}"
        )
        return module.forward


def _count_results(traced: torch.fx.GraphModule) -> int:
    (output,) = (node for node in traced.graph.nodes if node.op == "output")
    return len(output.args[0])


def _saved(traced: torch.fx.GraphModule) -> Set[int]:
    """Arguments of a backward pass that are no gradients."""
    placeholders = (node for node in traced.graph.nodes if node.op == "placeholder")
    return {i for i, node in enumerate(placeholders) if "tangents" not in node.name}


def _boxed(compiled: CompiledGraph) -> _Compiled:
    def call(args: List[Any]) -> List[Any]:
        return compiled(args)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def _name_of(module: torch.fx.GraphModule) -> str:
    identity = CompileContext.current_compile_id()
    lines = (line_of(node) for node in module.graph.nodes if node.op != "placeholder")
    line = next(filter(None, lines), "")
    return f"graph {identity}" + (f" ({line})" if line else "")


class _MpsGraphsBackend:
    compiler_name = "mpsgraphs"

    @staticmethod
    def reset() -> None:
        drop_all()

    def __call__(
        self,
        module: torch.fx.GraphModule,
        inputs: Sequence[Any],
        options: Optional[Dict[str, Any]] = None,
        mode: Optional[str] = None,
    ) -> Callable[..., Any]:
        # inductor's name for what this backend does
        if mode not in (None, "reduce-overhead"):
            raise ValueError(
                f"torch.compile(backend='mpsgraphs'): mode must be 'reduce-overhead' or None, which mean the same, got "
                f"{mode!r}. Choose with options: {', '.join(sorted(Options.__dataclass_fields__))}"
            )
        return mpsgraphs(module, inputs, options)


register_backend(name="mpsgraphs", compiler_fn=_MpsGraphsBackend())
