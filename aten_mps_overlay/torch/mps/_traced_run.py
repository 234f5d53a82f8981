r"""Runs of a traced graph, captured or operator by operator."""

from dataclasses import dataclass, field
from typing import Any, Dict, Optional, Sequence

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from ._static_memory import replay_of
from ._traced_graph import copies
from .graphs import MPSGraph


Values = Dict[Node, Any]

# What a number of the host becomes on the device, which has no 64-bit floating point.
_DEVICE_DTYPES = {torch.double: torch.float, torch.complex128: torch.complex64}


class TracedRun:
    """The values of one run of a traced graph, by node."""

    def __init__(self, module: GraphModule, values: Values) -> None:
        self.module = module
        self.values = values
        # whether all pieces were replayed, or all operators captured
        self.is_whole = True

    def call(self, node: Node, scalars: Optional[Values] = None) -> Any:
        """Runs a node. With ``scalars`` it reads single numbers of the host from there, on the device."""

        def value_of(used: Node) -> Any:
            value = self.values[used]
            if scalars is None or copies(node) or not _is_scalar_of_host(value):
                return value
            if used not in scalars:
                # what a capture does with one is to take its value, for all replays; of a copy it takes the address
                dtype = _DEVICE_DTYPES.get(value.dtype, value.dtype)
                scalars[used] = value.to("mps", dtype)
            return scalars[used]

        args: Any = map_arg(node.args, value_of)
        kwargs: Any = map_arg(node.kwargs, value_of)
        target: Any = node.target
        if node.op == "get_attr":
            value: Any = self.module
            for name in target.split("."):
                value = getattr(value, name)
        else:
            value = target(*args, **kwargs)
        self.values[node] = value
        return value

    def go_on_eagerly(self, nodes: Sequence[Node]) -> None:
        """Runs the nodes that are left."""
        self.is_whole = False
        for node in nodes:
            self.call(node)


@dataclass(eq=False)
class CapturedStep:
    """Operators that a replay repeats."""

    nodes: Sequence[Node]
    graph: MPSGraph

    def __post_init__(self) -> None:
        self.replay = replay_of(self.graph)

    def run(self, run: TracedRun) -> bool:
        self.replay()
        return True


@dataclass(eq=False)
class EagerStep:
    """Operators that run again in each call."""

    nodes: Sequence[Node]
    # those that captured pieces read, where they read them
    kept: Values = field(default_factory=dict)

    def run(self, run: TracedRun) -> bool:
        """Returns False if what follows can't be replayed with the results of this call."""
        for node in self.nodes:
            run.call(node)
        return all(_hand_over(run.values[n], kept) for n, kept in self.kept.items())


def _hand_over(value: Any, kept: Any) -> bool:
    """Returns False if captured operators would not do the same with the value as with what is kept."""
    values, spec = pytree.tree_flatten(value)
    places, kept_spec = pytree.tree_flatten(kept)
    if spec != kept_spec:
        return False
    for new, place in zip(values, places):
        if not isinstance(place, torch.Tensor):
            if type(new) is not type(place) or new != place:
                return False
        elif new.shape != place.shape or new.dtype != place.dtype:
            return False
        elif place_of(new) != place_of(place):
            place.copy_(new)
    return True


def _is_scalar_of_host(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.dim() == 0
        and value.device.type == "cpu"
    )


def place_of(tensor: torch.Tensor) -> bytes:
    return torch._C._mps_memoryKeyOf(tensor)


def _overlaps_itself(tensor: torch.Tensor) -> bool:
    strides = tensor.stride()
    # hardly any tensor has such a stride, and each result of a call passes here
    return 0 in strides and any(
        stride == 0 and size > 1 for size, stride in zip(tensor.shape, strides)
    )


def copy_of(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides."""
    if _overlaps_itself(tensor):
        first = tuple(
            slice(0, 1) if stride == 0 else slice(None) for stride in tensor.stride()
        )
        return tensor[first].clone().expand(tensor.shape)
    copy = tensor.clone()
    if copy.stride() != tensor.stride():
        copy = torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
        ).copy_(tensor)
    return copy


def dense_copy_of(tensor: torch.Tensor) -> torch.Tensor:
    """A copy that can be written to, with the same bits, and the same strides if they allow that."""
    if tensor.is_conj():
        return dense_copy_of(tensor.conj()).conj()
    if tensor.is_neg():
        return torch._neg_view(dense_copy_of(torch._neg_view(tensor)))
    if _overlaps_itself(tensor):
        return tensor.clone(memory_format=torch.contiguous_format)
    return copy_of(tensor.detach())


def keep_dense(run: TracedRun, node: Node) -> None:
    run.values[node] = pytree.tree_map_only(
        torch.Tensor,
        lambda t: dense_copy_of(t) if _overlaps_itself(t) else t,
        run.call(node),
    )
