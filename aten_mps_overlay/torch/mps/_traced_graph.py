r"""What is known of a traced graph before it runs: an order, and who reads and writes what."""

import operator
import os
import re
import sys
import traceback
from types import FrameType
from typing import Any, Dict, Iterator, List, Optional, Sequence, Set, Tuple

import torch
from torch._higher_order_ops.effects import with_effects
from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import py_sym_types
from torch.fx.experimental.symbolic_shapes import has_free_symbols
from torch.utils import _pytree as pytree


_TORCH = os.path.dirname(torch.__file__) + os.sep


class TracedGraph:
    """A graph of operators without branches, as AOTAutograd makes it.

    Attributes:
        placeholders: One for each argument.
        nodes: What runs, in an order that computations of the host alone begin: each of them in
            the middle would part work of the device that belongs together.
        results: Nodes, and constants such as None.
        views: The operators that make those of the first ``viewed`` results that are views of a
            placeholder, of one of the others or of the same tensor as one of the others, in order.
        read_by_views: The nodes that these operators read, apart from each other.
    """

    def __init__(self, module: GraphModule, viewed: int = 0) -> None:
        self.module = module
        nodes = list(module.graph.nodes)
        self.placeholders = [node for node in nodes if node.op == "placeholder"]
        (output,) = (node for node in nodes if node.op == "output")
        self.results: List[Any] = list(output.args[0])
        self.nodes = _host_first(
            [node for node in nodes if node.op not in ("placeholder", "output")]
        )
        self._last_use: Dict[Node, int] = {}
        for position, node in enumerate(self.nodes):
            for used in node.all_input_nodes:
                self._last_use[used] = position
        for result in self.results:
            if isinstance(result, Node):
                self._last_use[result] = len(self.nodes)
        shared = [n for n in self.results[:viewed] if isinstance(n, Node)]
        chains = [chain for chain in map(_views_to, shared) if chain]
        bases = [view_of(chain[0]) for chain in chains]
        made: Set[Node] = set()
        for chain, base in zip(chains, bases):
            if base in (*self.placeholders, *shared) or bases.count(base) > 1:
                made.update(chain)
        self.views = [node for node in self.nodes if node in made]
        self.read_by_views = {n for v in self.views for n in v.all_input_nodes} - made
        for node in self.read_by_views:
            self._last_use[node] = len(self.nodes)

    def unused_after(self, position: int) -> List[Node]:
        """The nodes that are not needed once the one at the position has run."""
        node = self.nodes[position]
        candidates = dict.fromkeys([*node.all_input_nodes, node])
        return [n for n in candidates if self._last_use.get(n, position) == position]


def is_tensor(node: Node) -> bool:
    """Whether the node is one tensor, not a number or several tensors."""
    return isinstance(node.meta.get("val"), torch.Tensor)


def devices(node: Node) -> Set[str]:
    """The types of the devices that the tensors of a node are on; empty for numbers."""
    return {
        leaf.device.type
        for leaf in pytree.tree_leaves(node.meta.get("val"))
        if isinstance(leaf, torch.Tensor)
    }


def is_of_host(node: Node) -> bool:
    """Whether the CPU computes the node, which no graph of the device can repeat."""
    if node.op == "get_attr":
        return False
    if node.target in (run_and_save_rng_state, run_with_rng_state):
        return True
    # a number is computed where its tensors are
    return "cpu" in (devices(node) or _devices_of_inputs(node))


def copies(node: Node) -> bool:
    """Whether the node copies tensors, also from the host."""
    return getattr(node.target, "overloadpacket", None) in (
        torch.ops.aten._to_copy,
        torch.ops.aten.copy,
        torch.ops.aten.copy_,
    )


def reads_tensors(node: Node) -> bool:
    return bool(_devices_of_inputs(node))


def _devices_of_inputs(node: Node) -> Set[str]:
    return {device for n in node.all_input_nodes for device in devices(n)}


def is_random(node: Node) -> bool:
    """Whether the node draws random numbers."""
    attention = torch.ops.aten._scaled_dot_product_attention_math_for_mps.default
    return (
        isinstance(node.target, torch._ops.OpOverload)
        and torch.Tag.nondeterministic_seeded in node.target.tags
        and node.target is not attention  # its kernel has no dropout
    )


def written_by(node: Node) -> List[Node]:
    """The arguments of a node that it writes to."""
    return _aliased_by(node, is_write=True)


def _aliased_by(node: Node, is_write: bool) -> List[Node]:
    """The arguments of a node that it writes to, or gives views of."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return []
    return [
        n
        for argument, given in arguments_of(node)
        if argument.alias_info and argument.alias_info.is_write == is_write
        for n in pytree.tree_leaves(given)
        if isinstance(n, Node)
    ]


def arguments_of(node: Node) -> Iterator[Tuple[Any, Any]]:
    """The arguments in the schema of an operator, each with what the node gives it."""
    target: Any = node.target
    for position, argument in enumerate(target._schema.arguments):
        if position < len(node.args):
            yield argument, node.args[position]
        else:
            yield argument, node.kwargs.get(argument.name, argument.default_value)


def view_of(node: Node) -> Optional[Node]:
    """The argument of a node that its result is a view of, if it is one."""
    if node.target is operator.getitem:
        parted = node.args[0]
        return parted if isinstance(parted, Node) and view_of(parted) else None
    viewed = _aliased_by(node, is_write=False)
    return viewed[0] if len(viewed) == 1 else None


def _views_to(node: Node) -> List[Node]:
    """The operators that lead to a node, as far back as each gives a view."""
    chain: List[Node] = []
    base: Optional[Node] = node
    while base is not None and (before := view_of(base)) is not None:
        chain.insert(0, base)
        base = before
    return chain


def forbids_capture(node: Node) -> bool:
    """Whether no part of the graph can be captured, as the memory of arguments is not that of other calls."""
    aten = torch.ops.aten
    packet = getattr(node.target, "overloadpacket", None)
    if packet in (aten.set_, aten.resize_, aten.resize_as_):
        return True  # gives an argument other memory
    if packet in (
        aten.as_strided,
        aten.as_strided_,
        aten.as_strided_copy,
        aten.as_strided_scatter,
    ):
        # A copy of an argument begins at the start of its storage, and has no elements but those of the argument.
        base = node.args[0]
        if isinstance(base, Node) and (views := _views_to(base)):
            base = view_of(views[0])
        return isinstance(base, Node) and base.op == "placeholder"
    # AOTAutograd passes None for the token of an effect.
    return node.target is with_effects


def mutated(nodes: Sequence[Node]) -> List[Node]:
    """The placeholders that the nodes write to."""
    written = dict.fromkeys(n for node in nodes for n in written_by(node))
    return [n for n in written if n.op == "placeholder"]


def varies(node: Node) -> bool:
    """Whether a size or number of the node, or of one that it reads, is another one in other calls."""
    values = [n.meta.get("val") for n in (node, *node.all_input_nodes)]
    return any(
        isinstance(value, (torch.Tensor, *py_sym_types)) and has_free_symbols(value)
        for value in pytree.tree_leaves(values)
    )


def line_of(node: Node) -> str:
    """Where the node comes from, in the user's code if any is known: file, line and function; else empty."""
    places = re.findall(r'File "(.+)", line (\d+), in (.+)', node.stack_trace or "")
    own = [place for place in places if not place[0].startswith(_TORCH)]
    if not own and (caller := _caller()):
        return caller
    for file, line, function in (own or places)[-1:]:
        return f"{file}:{line}, in {function}"
    return ""


def _caller() -> str:
    """The line of the program that calls the compiled function, if this thread runs it."""
    for frame, line in traceback.walk_stack(sys._getframe()):
        if _module_of(frame) not in ("", "contextlib", "torch"):
            code = frame.f_code
            return f"{code.co_filename}:{line}, in {code.co_name}"
    return ""


def _module_of(frame: FrameType) -> str:
    return frame.f_globals.get("__name__", "").partition(".")[0]


def _host_first(nodes: Sequence[Node]) -> List[Node]:
    first: Dict[Node, None] = {}
    for node in nodes:
        on_host = node.op == "get_attr" or (
            devices(node) <= {"cpu"} and not is_random(node) and not written_by(node)
        )
        if on_host and all(
            n in first or (n.op == "placeholder" and devices(n) <= {"cpu"})
            for n in node.all_input_nodes
        ):
            first[node] = None
    return [*first, *(node for node in nodes if node not in first)]
