"""Other numbers for the inputs of a captured operator, and the memory that they are written to."""

from collections.abc import Callable, Sequence

import torch


def storage_of(tensor: torch.Tensor) -> int:
    """Equal for tensors that share memory."""
    return int(tensor.untyped_storage()._cdata)


def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """All memory of the tensor's storage, also what lies between its elements."""
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


def alias(tensor: torch.Tensor, storage: torch.UntypedStorage | None = None) -> torch.Tensor:
    """The same elements, or those in another storage, in a tensor that autograd knows nothing of."""
    result = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    memory = tensor.untyped_storage() if storage is None else storage
    result.set_(memory, tensor.storage_offset(), tensor.shape, tensor.stride())
    if tensor.is_conj():
        result = torch._conj(result)
    return torch._neg_view(result) if tensor.is_neg() else result


def write(tensor: torch.Tensor, content: torch.Tensor) -> None:
    """Writes into the tensor's memory."""
    target = alias(tensor)
    # of an expanded dimension all elements are one
    for dim, (size, stride) in enumerate(zip(target.shape, target.stride())):
        if size > 1 and stride == 0:
            target, content = target.narrow(dim, 0, 1), content.narrow(dim, 0, 1)
    if target.numel():
        target.copy_(content)


def permuted(tensor: torch.Tensor) -> torch.Tensor:
    """The same values in other places."""
    return tensor.flatten().roll(1).view(tensor.shape)


def scaled(tensor: torch.Tensor) -> torch.Tensor:
    """Values nearer to zero, which valid ones mostly stay valid by."""
    if tensor.dtype is torch.bool:
        return ~tensor
    if tensor.is_floating_point() or tensor.is_complex():
        return tensor * 0.75
    return torch.where(tensor > 0, tensor - 1, tensor)


WAYS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {"permuted": permuted, "scaled": scaled}


def change_numbers(tensors: Sequence[torch.Tensor]) -> None:
    """Permutes the elements of each tensor of real or complex numbers, or scales them where all are one."""
    for tensor in tensors:
        if not tensor.is_floating_point() and not tensor.is_complex():
            continue
        old = alias(tensor).clone()
        for way in WAYS.values():
            write(tensor, way(old))
            if not torch.equal(alias(tensor), old):
                break
