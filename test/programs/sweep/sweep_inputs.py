"""The inputs of a case: copied with the memory they lie in, changed, and compared."""

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal.opinfo.core import SampleInput
from torch.utils import _pytree as pytree

sys.path.append(str(Path(__file__).resolve().parents[2] / "upstream" / "captured"))
from mps_changed_inputs import alias, bytes_of, storage_of, WAYS, write  # noqa: E402

DEVICE = "mps"
Tensors = list[torch.Tensor]
# Every byte of a result before the replay. As a number it is far from what samples are made of, except in a byte.
GARBAGE = 0x5A


def tensors_of(sample: SampleInput) -> Tensors:
    """The tensors in a sample, in a fixed order."""
    leaves = pytree.tree_leaves((sample.input, sample.args, sample.kwargs))
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def with_tensors(sample: SampleInput, tensors: Sequence[torch.Tensor]) -> tuple[Any, Any, Any]:
    """Input, args and kwargs of the sample with other tensors."""
    leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    rest = iter(tensors)
    first, args, kwargs = pytree.tree_unflatten(
        [next(rest) if isinstance(x, torch.Tensor) else x for x in leaves], spec
    )
    return first, args, kwargs


def copies(tensors: Sequence[torch.Tensor], copied: Callable[[torch.Tensor], torch.Tensor] = torch.clone) -> Tensors:
    """Tensors that lie in copies of the storages as the given ones lie in theirs: same offsets, strides, overlaps."""
    storages: dict[int, Any] = {}
    result = []
    for tensor in tensors:
        if storage_of(tensor) not in storages:
            storages[storage_of(tensor)] = copied(bytes_of(tensor.detach())).untyped_storage()
        copy = alias(tensor, storages[storage_of(tensor)])
        result.append(copy.requires_grad_(tensor.requires_grad))
    return result


def other_contents(originals: Tensors, other: SampleInput | None) -> Iterator[tuple[str, Tensors]]:
    """What to write into the inputs, the best way first, with its name.

    The values of a second sample are valid if they fit; those that were permuted or scaled may not be.
    """
    candidates = tensors_of(other) if other is not None else []
    if len(candidates) == len(originals) and all(
        a.shape == b.shape and a.dtype == b.dtype for a, b in zip(originals, candidates)
    ):
        yield "second sample", [c.detach() for c in candidates]
    for name, way in WAYS.items():
        yield name, [way(t.detach()) for t in originals]


def write_all(tensors: Tensors, contents: Tensors) -> None:
    """Writes into the memory of the inputs; numbers on the host are left, as a capture freezes them (contract 11)."""
    for tensor, content in zip(tensors, contents):
        if tensor.device.type != "cpu" or tensor.dim():
            write(tensor, content)


def fill_with_garbage(results: Tensors, inputs: Tensors) -> None:
    """Overwrites the whole memory of each result on the device that does not lie in an input's."""
    theirs = {storage_of(tensor) for tensor in inputs}
    for result in {storage_of(r): r for r in results if storage_of(r) not in theirs}.values():
        # a gradient that is zero everywhere may have no memory, whatever its storage says
        if result.device.type == DEVICE and result.untyped_storage().nbytes() and not result._is_zerotensor():
            bytes_of(result).fill_(GARBAGE)


def host_values(tensors: Sequence[torch.Tensor]) -> Tensors:
    """The elements on the host, as numbers that can be compared: a byte of garbage is no truth value."""

    def values(tensor: torch.Tensor) -> torch.Tensor:
        moved = tensor.detach().cpu().resolve_conj().resolve_neg()
        if moved.is_complex():
            return torch.view_as_real(moved)
        return moved.contiguous().view(torch.uint8) if moved.dtype is torch.bool else moved

    return [values(tensor) for tensor in tensors]


def same(a: Tensors, b: Tensors) -> bool:
    """True if shapes, types and values are equal, where NaN equals NaN."""

    def equal(x: torch.Tensor, y: torch.Tensor) -> bool:
        if x.shape != y.shape or x.dtype != y.dtype:
            return False
        return torch.equal(x, y) or bool(((x == y) | ((x != x) & (y != y))).all())

    return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b))
