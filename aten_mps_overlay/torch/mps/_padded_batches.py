r"""Batches of many sizes in graphs for few: where that gives the same results, and the larger batches."""

import operator
from typing import Any, Dict, List, Sequence, Set, Tuple

import sympy

import torch
from torch.fx import Node
from torch.utils import _pytree as pytree

from ._traced_graph import (
    arguments_of,
    is_random,
    is_tensor,
    line_of,
    mutated,
    TracedGraph,
)


# Operators that give elements other places, also along the batch where its rows stay whole.
_MOVES = {
    *("slice", "select", "squeeze", "unsqueeze", "permute", "transpose", "t", "expand"),
    *("stack", "split", "split_with_sizes", "unbind", "detach", "alias"),
}
_RESHAPES = {"view", "_unsafe_view", "reshape"}
# Operators that work along dimensions, which must not be that of the batch.
_ALONG_DIMS = {
    *("_softmax", "_log_softmax", "logsumexp", "glu", "cat", "gather", "index_select"),
    *("sum", "mean", "prod", "amax", "amin", "max", "min", "argmax", "argmin"),
    *("any", "all", "var", "std", "var_mean", "linalg_vector_norm", "norm"),
    *("cumsum", "cumprod", "sort", "topk", "flip", "roll"),
}
# Operators of which the first argument, and each that is a batch, has the batch as its first dimension.
_OF_FIRST_DIM = {
    *("convolution", "avg_pool2d", "max_pool2d", "max_pool2d_with_indices"),
    *("_adaptive_avg_pool2d", "native_group_norm", "mm", "addmm", "bmm", "baddbmm"),
    *("_native_batch_norm_legit_no_training", "pixel_shuffle", "pixel_unshuffle"),
    *("upsample_nearest2d", "upsample_bilinear2d", "upsample_linear1d"),
    *("_scaled_dot_product_attention_math_for_mps", "scaled_dot_product_attention"),
}
# Operators whose last dimensions must not be the batch: how many, of the second argument where that says it.
_OF_LAST_DIMS: Dict[str, Any] = {
    "linear": 1,
    "tril": 2,
    "triu": 2,
    "native_layer_norm": len,
    "constant_pad_nd": lambda pad: len(pad) // 2,
}
# Weights of these operators must not be batches.
_WEIGHTS = {
    "mm": [1],
    "addmm": [2],
    "linear": [1, 2],
    "convolution": [1, 2],
    "embedding": [0],
}
# Operators that make tensors, of which a row does not depend on the number of rows.
_MAKES = {
    *("arange", "empty", "full", "ones", "zeros", "scalar_tensor", "empty_like"),
    *("full_like", "ones_like", "zeros_like", "new_empty", "new_full", "new_ones"),
    *("new_zeros", "lift_fresh_copy"),
}


class PaddedBatches:
    """The arguments of a traced graph in batches that are a power of two large.

    A batch of another size is copied to the first rows of a larger one, and the results are cut. The rows of a result
    must not depend on other rows of the arguments, nor on the size of the batch.

    Arguments:
        part: That of the compiled function; gradients would count the rows of the padding.

    Attributes:
        reason: Why batches are not padded; empty if they are.
        arguments: The positions of the arguments that are batches.
    """

    def __init__(self, traced: TracedGraph, part: str) -> None:
        self.traced = traced
        self.arguments: List[int] = []
        # the position of the size of the batch
        self._size = 0
        self._rows: Dict[Tuple[int, ...], torch.Tensor] = {}
        self.reason = "gradients would count the padding"
        if part == "inference":
            self.reason = self._reason_not_to()
        if self.reason:
            self.arguments = []

    def _reason_not_to(self) -> str:
        values = [node.meta["val"] for node in self.traced.placeholders]
        batches = {i: symbol for i, v in enumerate(values) if (symbol := _size_of(v))}
        symbol = next(iter(batches.values()), None)
        sizes = [i for i, v in enumerate(values) if isinstance(v, torch.SymInt)]
        self.arguments = [i for i, other in batches.items() if other == symbol]
        self._size = next((i for i in sizes if values[i].node.expr == symbol), -1)
        if self._size < 0:
            return "no argument has a first dimension that varies"
        for i, value in enumerate(values):
            if _dims_of(value, symbol) not in ([], [0]):
                return f"the size of the batch is also another size of argument {i}"
        viewed = self.traced.read_by_views.intersection(self.traced.placeholders)
        if mutated(self.traced.nodes) or any(map(is_tensor, viewed)):
            return "it writes to its arguments, or returns views of them"
        # of nodes whose batch was made one dimension with a dimension before it: the size of that
        outer: Dict[Node, Any] = {}
        for node in self.traced.nodes:
            if why := _mixes_rows(node, symbol, outer):
                return f"{node.target} {why} ({line_of(node)})"
        for node in self.traced.results:
            value = node.meta["val"] if isinstance(node, Node) else None
            if value is not None and _size_of(value) != symbol:
                return f"the batch is not the first dimension of the result {node}"
        return ""

    def pad(self, args: Sequence[Any]) -> Tuple[Tuple[Any, ...], int]:
        """Return arguments for the next power of two, which lie at the same places, and how many rows count."""
        rows = args[self._size]
        size = 1 << (rows - 1).bit_length()
        padded = list(args)
        padded[self._size] = size
        for i in self.arguments:
            shape = (size, *args[i].shape[1:])
            if (i, *shape) not in self._rows:
                with torch.inference_mode(False):
                    # values that each operator takes, also as an index
                    self._rows[(i, *shape)] = args[i].new_zeros(shape)
            padded[i] = self._rows[(i, *shape)]
            padded[i][:rows].copy_(args[i])
        return tuple(padded), rows


def _size_of(value: Any) -> Any:
    """The symbol that is the size of the first dimension, if it is one."""
    if not isinstance(value, torch.Tensor) or value.dim() == 0:
        return None
    size = _expression(value.shape[0])
    return size if size is not None and size.is_Symbol else None


def _expression(size: Any) -> Any:
    """The sympy expression of a number that may vary."""
    symbolic = (torch.SymInt, torch.SymFloat, torch.SymBool)
    return size.node.expr if isinstance(size, symbolic) else None


def _product(sizes: Sequence[Any]) -> Any:
    product = sympy.Integer(1)
    for size in sizes:
        product *= size if isinstance(size, int) else _expression(size)
    return product


def _symbols_of(size: Any) -> Set[Any]:
    return getattr(_expression(size), "free_symbols", set())


def _dims_of(value: Any, symbol: Any) -> List[int]:
    """The dimensions that depend on the size of the batch."""
    return [
        i
        for i, size in enumerate(getattr(value, "shape", ()))
        if symbol in _symbols_of(size)
    ]


def _mixes_rows(node: Node, symbol: Any, outer: Dict[Node, Any]) -> str:
    """Why it is not proved that a row of the results depends on its own rows alone, and not on how many there are."""
    if is_random(node):
        return "draws a number of random numbers that depends on the size of the batch"
    given = [n.meta["val"] for n in node.all_input_nodes if is_tensor(n)]
    batches = [value for value in given if _dims_of(value, symbol)]
    results = [
        t
        for t in pytree.tree_leaves(node.meta.get("val"))
        if isinstance(t, torch.Tensor)
    ]
    for value in results:
        dims = _dims_of(value, symbol)
        if batches and not dims:
            return "reduces the batch"
        if len(dims) > 1:
            return "combines rows with rows"
        rest = [_expression(value.shape[i]) / symbol for i in dims]
        if any(symbol in expression.free_symbols for expression in rest):
            return "takes a part of the batch"
    factors = {
        outer.get(n, 1)
        for n in node.all_input_nodes
        if is_tensor(n) and _dims_of(n.meta["val"], symbol)
    }
    if len(factors) > 1:
        return "combines rows with rows"
    outer[node] = next(iter(factors), 1)
    if node.target is operator.getitem:
        outer[node] = outer.get(node.all_input_nodes[0], 1)
        return ""
    if not isinstance(node.target, torch._ops.OpOverload):
        return "may do anything with the batch" if batches else ""
    arguments = list(arguments_of(node))
    for argument, value in arguments:
        nodes = [n for n in pytree.tree_leaves(value) if isinstance(n, Node)]
        is_size = any(symbol in _symbols_of(n.meta["val"]) for n in nodes)
        # positions up to the size of the batch are those of its rows
        if is_size and argument.name != "end" and "int" not in str(argument.real_type):
            return "computes with the size of the batch"
    name = node.target.overloadpacket.__name__
    if name == "sym_size":
        return ""
    if not batches:
        makes = name in _MAKES or not any(_dims_of(t, symbol) for t in results)
        return "" if makes or name in _MOVES else "computes with the size of the batch"
    if not results or node.target.namespace not in ("aten", "prims"):
        return "may do anything with the batch"
    if name in _RESHAPES:
        (dim,) = _dims_of(results[0], symbol)
        before = batches[0].shape[: _dims_of(batches[0], symbol)[0]]
        outer[node] *= _product(before) / _product(results[0].shape[:dim])
        # of each row that the dimension has, what lies behind the batch
        inner = _product([results[0].shape[dim]]) / symbol / outer[node]
        is_whole = all(sympy.fraction(n)[1] == 1 for n in (outer[node], inner))
        return "" if is_whole else "moves rows into other rows"
    return _mixes_rows_of(node, name, arguments, batches, results, symbol)


def _mixes_rows_of(
    node: Node,
    name: str,
    arguments: Sequence[Tuple[Any, Any]],
    batches: Sequence[torch.Tensor],
    results: Sequence[torch.Tensor],
    symbol: Any,
) -> str:
    """What `_mixes_rows()` says of an operator of the device that is given batches."""
    first = next((n.meta["val"] for n in node.all_input_nodes if is_tensor(n)), None)
    assert first is not None
    place = _dims_of(batches[0], symbol)[0] - batches[0].dim()
    positions = {_dims_of(t, symbol)[0] - t.dim() for t in (*batches, *results)}
    if any(len(_dims_of(t, symbol)) > 1 for t in batches):
        return "combines rows with rows"
    for i in _WEIGHTS.get(name, ()):
        weight = arguments[i][1]
        if isinstance(weight, Node) and _dims_of(weight.meta["val"], symbol):
            return "works along the batch"
    if torch.Tag.pointwise in node.target.tags or name in ("clone", "_to_copy", "copy"):  # type: ignore[union-attr]
        return "" if len(positions) == 1 else "combines rows with rows"
    if name == "slice" and results[0].shape[place] != batches[0].shape[place]:
        return "takes a part of the batch"
    if name in _MOVES or name in _MAKES or name == "embedding":
        return ""
    if name == "repeat":
        repeats = arguments[1][1]
        return "" if repeats[place] == 1 else "works along the batch"
    if name == "index":
        indexes = [n for n in arguments[1][1] if n is not None]
        is_table = not _dims_of(first, symbol)
        return "" if is_table and len(indexes) == 1 else "works along the batch"
    if name in _OF_FIRST_DIM:
        is_first = all(_dims_of(t, symbol) == [0] for t in (*batches, *results))
        is_whole = _dims_of(first, symbol) == [0] or name in ("addmm", "baddbmm")
        return "" if is_first and is_whole else "works along the batch"
    if name in _OF_LAST_DIMS:
        last = _OF_LAST_DIMS[name]
        if not isinstance(last, int):
            last = last(arguments[1][1])
        return "" if all(-p > last for p in positions) else "works along the batch"
    if name in _ALONG_DIMS:
        dims = next((v for a, v in arguments if a.name in ("dim", "dims")), None)
        over = dims if isinstance(dims, (list, tuple)) else [dims]
        if over and all(isinstance(d, int) for d in over):
            size = batches[0].dim()
            if all(d % size != place % size for d in over):
                return ""
        return "works along the batch"
    return "is not known to work row by row"
