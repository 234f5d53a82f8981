r"""Batches of many sizes in graphs for few: where that gives the same results, and the larger batches."""

from typing import Any, Dict, List, Sequence, Set, Tuple

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


# Operators with a dimension that only give elements other places.
_MOVES = {
    *("slice", "select", "squeeze", "unsqueeze", "permute"),
    *("cat", "stack", "split", "split_with_sizes", "unbind"),
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
        for node in self.traced.nodes:
            if why := _mixes_rows(node, symbol):
                return f"{node.target} {why} ({line_of(node)})"
        for node in self.traced.results:
            value = node.meta["val"] if isinstance(node, Node) else None
            if value is not None and _size_of(value) != symbol:
                return f"the batch is not the first dimension of the result {node}"
        return ""

    def pad(self, args: Sequence[Any]) -> Tuple[List[Any], int]:
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
        return padded, rows


def _size_of(value: Any) -> Any:
    """The symbol that is the size of the first dimension, if it is one."""
    if not isinstance(value, torch.Tensor) or value.dim() == 0:
        return None
    size = _expression(value.shape[0])
    return size if size is not None and size.is_Symbol else None


def _expression(size: Any) -> Any:
    """The sympy expression of a size that may vary."""
    return size.node.expr if isinstance(size, torch.SymInt) else None


def _symbols_of(size: Any) -> Set[Any]:
    return getattr(_expression(size), "free_symbols", set())


def _dims_of(value: Any, symbol: Any) -> List[int]:
    """The dimensions that depend on the size of the batch."""
    return [
        i
        for i, size in enumerate(getattr(value, "shape", ()))
        if symbol in _symbols_of(size)
    ]


def _mixes_rows(node: Node, symbol: Any) -> str:
    """Why results of an operator may depend on other rows than their own, or on how many there are."""
    if is_random(node):
        return "draws a number of random numbers that depends on the size of the batch"
    inputs = [n.meta["val"] for n in node.all_input_nodes if is_tensor(n)]
    batches = [dims for value in inputs if (dims := _dims_of(value, symbol))]
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
    if not isinstance(node.target, torch._ops.OpOverload):
        return ""
    if batches and (not results or node.target.namespace not in ("aten", "prims")):
        return "may do anything with the batch"
    name = node.target.overloadpacket.__name__
    for argument, given in arguments_of(node):
        nodes = [n for n in pytree.tree_leaves(given) if isinstance(n, Node)]
        is_size = any(symbol in _symbols_of(n.meta["val"]) for n in nodes)
        # positions up to the size of the batch are those of its rows
        if is_size and argument.name != "end" and "int" not in str(argument.real_type):
            return "computes with the size of the batch"
        if argument.name in ("dim", "dims") and batches and name not in _MOVES:
            over = given if isinstance(given, (list, tuple)) else [given]
            if not over or any(
                d is None or d % inputs[0].dim() in batches[0] for d in over
            ):
                return "works along the batch"
    return ""
