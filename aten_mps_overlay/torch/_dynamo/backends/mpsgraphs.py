"""The backend "mpsgraphs" of torch.compile: AOTAutograd's graphs run as captured graphs of the MPS device."""

import os
import traceback
import warnings
from contextlib import contextmanager
from functools import partial
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

import torch
import torch.autograd.forward_ad as forward_ad
from torch._C import DispatchKey
from torch._decomp import decomposition_table
from torch._decomp.decompositions import index_copy
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.eval_frame import cached_backends
from torch._dynamo.exc import TensorifyScalarRestartAnalysis
from torch._functorch._aot_autograd.schemas import ViewAndMutationMeta
from torch._functorch._aot_autograd.subclass_utils import requires_subclass_dispatch
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch._functorch.partitioners import default_partition
from torch._guards import CompileContext, TracingContext
from torch._prims_common import (
    compute_elementwise_output_strides,
    suggest_memory_format,
)
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.mps._compiled_graphs import (
    CompiledGraph,
    drop_all,
    Options,
    Roles,
    SharedMemory,
)
from torch.mps._traced_graph import line_of
from torch.utils._pytree import tree_leaves

from .registry import register_backend


_Compiled = Callable[..., List[Any]]


# Tracing puts operators in place of others that the device has no kernel for. These run what eager runs there, or what
# a program does that catches eager's error.
_OWN: Dict[Any, Callable[..., Any]] = {
    torch.ops.aten.index_copy.default: index_copy,
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

_aten = torch.ops.aten
# The strides of results on this device differ from those that PyTorch 2.6 traces: these are contiguous,
_CONTIGUOUS = {
    _aten._fft_c2c.default,
    _aten.abs.default,
    _aten.addr.default,
    _aten.constant_pad_nd.default,
    _aten.flip.default,
    _aten.huber_loss.default,
    _aten.isinf.default,
    _aten.linalg_inv_ex.default,
    _aten.linalg_lu_factor.default,
    _aten.logical_and.default,
    _aten.logical_not.default,
    _aten.logical_or.default,
    _aten.logical_xor.default,
    _aten.logit.default,
    _aten.normal.Tensor_Tensor,
    _aten.pow.Scalar,
    torch.ops.prims.abs.default,
}
# these are in the format of the first argument, contiguous or channels-last,
_OF_FORMAT = {
    _aten._batch_norm_with_update.default,
    _aten._native_batch_norm_legit.default,
    _aten._native_batch_norm_legit.no_stats,
    _aten._native_batch_norm_legit_functional.default,
    _aten._prelu_kernel.default,
    _aten.convolution.default,
    _aten.hardswish.default,
    _aten.linear.default,
    _aten.native_batch_norm.default,
    _aten.relu.default,
    _aten.roll.default,
}
# and these have those of a sum of their arguments.
_AS_A_SUM = {
    _aten.copysign.Tensor,
    _aten.div.Tensor_mode,
    _aten.floor_divide.default,
    _aten.logaddexp.default,
    _aten.nan_to_num.default,
    _aten.smooth_l1_loss.default,
    _aten.xlogy.Tensor,
}
# These depend on the other arguments, too.
_SPECIAL = {
    _aten.index.Tensor,
    _aten.pixel_shuffle.default,
    _aten.pixel_unshuffle.default,
}

if torch.backends.mps.is_available() and not torch.backends.mps.is_macos_or_newer(
    15, 0
):
    _OF_FORMAT -= {_aten.convolution.default, _aten.roll.default}
    _CONTIGUOUS |= {_aten.cat.default, _aten.roll.default}

_trace = FakeTensorMode._dispatch_impl


def _trace_strides(
    mode: FakeTensorMode, op: Any, types: Any, args: Any, kwargs: Any
) -> Any:
    """Gives traced results the strides of the device, by which programs and views decide."""
    results = _trace(mode, op, types, args, kwargs)
    is_one = isinstance(results, torch.Tensor)
    if op in _CONTIGUOUS or op in _OF_FORMAT or op in _AS_A_SUM or op in _SPECIAL:
        first = results if is_one else results[0]
        if first.device.type == "mps":
            with mode:
                first = _like_on_device(op, args, kwargs, first)
            return first if is_one else (first, *results[1:])
    return results


def _like_on_device(op: Any, args: Any, kwargs: Any, traced: torch.Tensor) -> Any:
    tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
    memory_format = torch.contiguous_format
    if op in _OF_FORMAT:
        if op is _aten.convolution.default and (tensors[0].dim() != 4 or args[6]):
            return traced
        memory_format = suggest_memory_format(tensors[0])
    elif op is _aten.index.Tensor:
        return _like_indexed(*args, traced)
    elif op in _SPECIAL and args[1] == 1:
        return torch.empty_like(tensors[0])
    elif op in _AS_A_SUM and (
        op is not _aten.floor_divide.default or tensors[0].dim() > 0
    ):
        total = sum(tensors[1:], tensors[0])
        return torch.empty_like(total, dtype=traced.dtype)
    return torch.empty_like(traced, memory_format=memory_format)


def _like_indexed(tensor: torch.Tensor, indices: Any, traced: torch.Tensor) -> Any:
    """Orders the dimensions like TensorIterator, for which the indexed ones of `tensor` have the stride 0."""
    dims = [dim for dim, index in enumerate(indices) if index is not None]
    given = torch.broadcast_tensors(*(indices[dim] for dim in dims))
    is_mask = any(index.dtype in (torch.bool, torch.uint8) for index in given)
    if is_mask or all(t.is_contiguous() for t in (tensor, *given)):
        return traced
    if len({index.stride() for index in given}) > 1:
        given = [index.contiguous() for index in given]  # as its caller does
    # where the dimensions of the indices are in the result
    first = dims[0] if dims[-1] - dims[0] == len(dims) - 1 else 0
    strides = [s for dim, s in enumerate(tensor.stride()) if dim not in dims]
    strides[first:first] = [0] * given[0].dim()
    last = (None,) * (len(strides) - first - given[0].dim())
    operands = (index[(..., *last)].expand(traced.shape) for index in given)
    source = tensor.as_strided(traced.shape, strides)
    strides = compute_elementwise_output_strides(source, *operands)
    return traced.new_empty_strided(traced.shape, strides)


FakeTensorMode._dispatch_impl = _trace_strides  # type: ignore[method-assign]
FakeTensorMode.cache_clear()  # of what was traced before


def _has_kernel(op: torch._ops.OpOverload) -> bool:
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    keys = ("MPS", "CompositeExplicitAutograd", "CompositeImplicitAutograd")
    if any(has_kernel(op.name(), key) for key in keys):
        return True
    # either runs operators that have kernels, or the kernel of the overload that writes to a given result
    if not has_kernel(op.name(), "CompositeExplicitAutogradNonFunctional"):
        return False
    name = op._overloadname
    writing = getattr(
        op.overloadpacket, "out" if name == "default" else f"{name}_out", None
    )
    return writing is not None and any(has_kernel(writing.name(), k) for k in keys)


def _decompositions() -> Dict[Any, Callable[..., Any]]:
    """Also of operators that the device has no kernel for, where eager raises and does not run them on the CPU."""
    if os.environ.get("PYTORCH_ENABLE_MPS_FALLBACK") == "1":
        return _OWN
    lacking = {
        op: decomposition
        for op, decomposition in decomposition_table.items()
        if isinstance(op, torch._ops.OpOverload)
        and op.namespace == "aten"
        and not _has_kernel(op)
    }
    return {**lacking, **_OWN}


def _without_gradients(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Eager copies the inputs of these to the CPU and records the copies. A trace would have no gradient."""
    tensors = (t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor))
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        raise NotImplementedError(f"the gradient of {op} is computed on the CPU")
    return op.decompose(*args, **kwargs)


@contextmanager
def _eager_operators() -> Iterator[None]:
    """Lets tracing keep operators whole, as eager runs them: their decompositions give other last bits."""
    aten = torch.ops.aten
    decomposed = (
        aten.dropout,
        aten.softshrink,
        aten.upsample_bicubic2d,
        aten.upsample_linear1d,
        aten.upsample_bilinear2d,
        aten.upsample_nearest1d,
        aten.upsample_nearest2d,
        aten.upsample_nearest3d,
        aten._upsample_nearest_exact1d,
        aten._upsample_nearest_exact2d,
        aten._upsample_nearest_exact3d,
    )
    operators = [getattr(p, overload) for p in decomposed for overload in p.overloads()]
    on_cpu = [aten.linalg_svd.default, aten.upsample_nearest3d.vec]
    changed = {op: op.py_kernels.copy() for op in (*operators, *on_cpu)}
    whole: List[Any] = [
        aten.linalg_lu_factor,
        aten.linear,
        aten.mish_backward,
        aten.silu_backward,
    ]
    for packet in whole:
        packet.default.decompose = lambda *args, **kwargs: NotImplemented
    try:
        for op in operators:
            for key in (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd):
                op.py_kernels.pop(key, None)
        for op in on_cpu:
            op.py_kernels[DispatchKey.AutogradMPS] = partial(_without_gradients, op)
        for op in changed:
            op._dispatch_cache.clear()
        yield
    finally:
        for packet in whole:
            packet.default.__dict__.pop("decompose", None)
        for op, before in changed.items():
            op.py_kernels.pop(DispatchKey.AutogradMPS, None)
            op.py_kernels.update(before)
            op._dispatch_cache.clear()


def _partition(joint: torch.fx.GraphModule, inputs: Any, **options: Any) -> Any:
    """The default one expects metadata that Dynamo's nodes for a Python number that varies lack."""
    for node in joint.graph.nodes:
        if isinstance(node.meta.get("val"), torch.Tensor):
            node.meta.setdefault("tensor_meta", None)
    return default_partition(joint, inputs, **options)


def _aot_autograd(**compilers: Any) -> Callable[..., Any]:
    """AOTAutograd, with the operators that eager runs."""
    with_decompositions = aot_autograd(
        decompositions=_decompositions(), partition_fn=_partition, **compilers
    )

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


def assert_true(condition: torch.Tensor, message: str) -> None:
    """What eager does for ``assert``, which is traced as an operator without a kernel."""
    if not condition:
        raise AssertionError(message)


_IN_PLACE_OF = {
    _aten._linalg_svd.default: linalg_svd,
    _aten._assert_async.msg: assert_true,
}


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
    direct: List[CompiledGraph] = []

    def compiled(
        part: str,
        traced: torch.fx.GraphModule,
        roles: Roles,
        forward: Optional[CompiledGraph] = None,
    ) -> CompiledGraph:
        for node in traced.graph.nodes:
            node.target = _IN_PLACE_OF.get(node.target, node.target)
        traced.recompile()
        return CompiledGraph(traced, part, name, chosen, shared, roles, forward)

    def inference(traced: torch.fx.GraphModule, _args: Sequence[Any]) -> _Compiled:
        metadata = TracingContext.get().fw_metadata
        roles = Roles(set(metadata.static_input_indices), len(_results(traced)))
        graph = compiled("inference", traced, roles)
        direct[:] = [graph] if _is_direct(metadata, inputs, traced) else []
        return graph.call

    def forward(traced: torch.fx.GraphModule, _args: Sequence[Any]) -> _Compiled:
        metadata = TracingContext.get().fw_metadata
        changes_metadata = any(i.mutates_storage_metadata for i in metadata.input_info)
        roles = Roles(
            set(metadata.static_input_indices),
            len(metadata.tokens) + metadata.num_forward,
            0 if changes_metadata else metadata.num_mutated_inp_runtime_indices,
        )
        forwards[:] = [compiled("forward", traced, roles)]
        return forwards[0].call

    def backward(traced: torch.fx.GraphModule, _args: Sequence[Any]) -> _Compiled:
        roles = Roles(_saved(traced), len(_results(traced)))
        return make_boxed_func(compiled("backward", traced, roles, forwards[0]).call)

    compile_with_autograd = _aot_autograd(
        fw_compiler=forward,
        bw_compiler=backward,
        inference_compiler=inference,
        keep_inference_input_mutations=True,
    )
    try:
        with_autograd = compile_with_autograd(module, inputs)
        # Dynamo disables itself around the whole call, so once more around this part would only take time.
        with_autograd = getattr(
            with_autograd, "_torchdynamo_orig_callable", with_autograd
        )
        if direct:
            with_autograd = direct[0].call
        return _with_eager_state(
            name, module, with_autograd, bool(forwards), torch._C._mps_autocast()
        )
    except TensorifyScalarRestartAnalysis:
        raise
    except Exception as error:
        # what eager runs must not raise, for whatever AOTAutograd can't trace
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = str(error).strip() or f"at {where.filename}:{where.lineno}"
        reason = f"{type(error).__name__}: {text.splitlines()[0]}"
        warnings.warn(
            f"torch.compile(backend='mpsgraphs'): {name} runs eagerly, since AOTAutograd can't trace it: {reason}"
        )
        return module.forward


def _with_eager_state(
    name: str,
    module: torch.fx.GraphModule,
    compiled: Callable[..., Any],
    is_trained: bool,
    autocast: int,
) -> Callable[..., Any]:
    """Runs what Dynamo traced eagerly if the calls have other state than the trace, which Dynamo doesn't guard."""
    was_told = False

    def call(*args: Any) -> Any:
        nonlocal was_told
        if forward_ad._current_level >= 0:
            return module.forward(*args)  # AOTAutograd drops the tangents
        if torch._C._mps_autocast() != autocast:  # the casts are part of the trace
            if not was_told:
                was_told = True
                warnings.warn(
                    f"torch.compile(backend='mpsgraphs'): {name} runs eagerly under another autocast dtype than that of "
                    "its first call. Call torch._dynamo.reset() after a change."
                )
            return module.forward(*args)
        results = compiled(*args)
        if is_trained:
            _forbid_second_order(args, results)
        return results

    return call


def _forbid_second_order(args: Sequence[Any], results: Sequence[Any]) -> None:
    """Lets gradients of gradients raise, also where autograd would find no path to an argument and give zeros."""
    for result in results:
        node = result.grad_fn if isinstance(result, torch.Tensor) else None
        while node is not None:
            if type(node).__name__ == "CompiledFunctionBackward":
                node.register_prehook(partial(_connect, args))
                return
            # a view of a result
            node = next((n for n, _ in node.next_functions), None)


def _connect(args: Sequence[Any], grads: Sequence[Any]) -> Optional[Tuple[Any, ...]]:
    """With create_graph=True, gives a backward pass gradients that depend on all arguments."""
    if not torch.is_grad_enabled():
        return None
    inputs = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]
    reason = b"a function compiled with mpsgraphs has no second-order gradients"
    position, grad = next((i, g) for i, g in enumerate(grads) if g is not None)
    connect = torch._C._functions.DelayedError(reason, 1 + len(inputs))
    # newer releases copy an expanded gradient in place, which one that depends on others doesn't allow
    connected = connect(grad.contiguous(), *inputs)[0]
    return (*grads[:position], connected, *grads[position + 1 :])


def _is_direct(
    metadata: ViewAndMutationMeta, inputs: Sequence[Any], traced: torch.fx.GraphModule
) -> bool:
    """Whether AOTAutograd would pass the arguments and results of an inference graph on as they are."""
    placeholders = sum(node.op == "placeholder" for node in traced.graph.nodes)
    changes = any(i.mutates_data or i.mutates_metadata for i in metadata.input_info)
    return (
        placeholders == len(inputs)
        and not changes
        and not metadata.tokens
        and not metadata.num_outputs_aliased
        and not metadata.dynamic_outputs
        and metadata.grad_enabled_mutation is None
        and not requires_subclass_dispatch(inputs, metadata)
    )


def _results(traced: torch.fx.GraphModule) -> Any:
    return traced.graph.output_node().args[0]


def _saved(traced: torch.fx.GraphModule) -> Set[int]:
    """Arguments of a backward pass that are no gradients."""
    placeholders = (node for node in traced.graph.nodes if node.op == "placeholder")
    return {i for i, node in enumerate(placeholders) if "tangents" not in node.name}


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
        # torch._dynamo.reset() forgets backends that a compiled function may use again
        cached_backends.setdefault(id(self), self)
        # inductor's name for what this backend does
        if mode not in (None, "reduce-overhead"):
            raise ValueError(
                f"torch.compile(backend='mpsgraphs'): mode must be 'reduce-overhead' or None, which mean the same, got "
                f"{mode!r}. Choose with options: {', '.join(sorted(Options.__dataclass_fields__))}"
            )
        return mpsgraphs(module, inputs, options)


register_backend(name="mpsgraphs", compiler_fn=_MpsGraphsBackend())
