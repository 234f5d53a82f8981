"""Other metadata for a tensor: the changes of `scripts/mpsfork sweep --state`, each by another of PyTorch's ways."""

from collections.abc import Callable

import torch
from sweep_inputs import alias, copies, other_contents, storage_of, Tensors, write
from torch.testing._internal.opinfo.core import SampleInput

Change = Callable[[torch.Tensor], object]


def doubled(memory: torch.Tensor) -> torch.Tensor:
    """The bytes twice, each time with as many as the largest element needs to be aligned."""
    return torch.cat([memory, memory.new_zeros(-memory.numel() % 16)] * 2)


def with_room(originals: Tensors, other: SampleInput | None) -> Tensors:
    """The same tensors at the beginning of storages of twice the size, with other values of each in the second half."""
    tensors = copies(originals, doubled)
    for _, contents in reversed(list(other_contents(originals, other))):
        for tensor, original, content in zip(tensors, originals, contents):
            if not torch.equal(content, original):
                write(in_second_half(tensor), content)
    return tensors


def half(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().nbytes() // 2 // tensor.element_size()


def in_second_half(tensor: torch.Tensor) -> torch.Tensor:
    moved = alias(tensor)
    to_offset(moved)
    return moved


def to_offset(tensor: torch.Tensor) -> None:
    offset = tensor.storage_offset() + half(tensor)
    tensor.set_(tensor.untyped_storage(), offset, tensor.shape, tensor.stride())  # type: ignore[call-overload]


def to_order(tensor: torch.Tensor) -> None:
    """The dimensions in reverse order in memory, where the values are rewritten."""
    if tensor.storage_offset() + tensor.numel() <= half(tensor):
        values, dims = tensor.clone(), tuple(reversed(range(tensor.dim())))
        strides = torch.empty([tensor.shape[dim] for dim in dims], device="meta").permute(dims).stride()
        write(tensor.as_strided_(tensor.shape, strides), values)


def to_smaller(tensor: torch.Tensor) -> None:
    """One less in the first dimension that has two."""
    shape = list(tensor.shape)
    dim = next((dim for dim, size in enumerate(shape) if size > 1), None)
    if dim is not None and tensor.storage_offset() + tensor.numel() <= half(tensor):
        shape[dim] -= 1
        tensor.resize_(shape)


def to_storage(tensor: torch.Tensor) -> None:
    tensor.data = copies([in_second_half(tensor)])[0]


CHANGES: dict[str, Change] = {
    "offset (set_)": to_offset,
    "stride order (as_strided_)": to_order,
    "stride order and shape (transpose_)": lambda tensor: tensor.dim() > 1 and tensor.transpose_(0, -1),
    "size (resize_)": to_smaller,
    "size (unsqueeze_)": lambda tensor: tensor.unsqueeze_(0),
    "storage (.data)": to_storage,
}


def change_metadata(tensor: torch.Tensor, change: Change) -> bool:
    """Whether the change changed anything."""

    def metadata() -> tuple[object, ...]:
        return storage_of(tensor), tensor.storage_offset(), tensor.shape, tensor.stride()

    before, wanted = metadata(), tensor.requires_grad
    with torch.no_grad():
        change(tensor.requires_grad_(False))  # resize_() raises for the others
    tensor.requires_grad_(wanted)
    return metadata() != before
