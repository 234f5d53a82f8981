"""What a program's tensors hold at one moment."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from causes import names_a_cause
from subjects import DEVICE


@dataclass(frozen=True)
class Seen:
    """What was read, by name: bytes, and what autograd says of the tensor. What raised when it was read has none."""

    values: dict[str, bytes]
    refused: frozenset[str]
    generator: bytes


class Observer:
    """Reads all tensors with one wait for the device: each is copied to a piece of one buffer."""

    _SIZE = 1 << 15

    def __init__(self) -> None:
        self._bytes = torch.empty(self._SIZE, dtype=torch.uint8, device=DEVICE)
        self._views = {dtype: self._bytes.view(dtype) for dtype in (torch.float32, torch.float16, torch.int64)}

    def see(self, named: Iterable[tuple[str, torch.Tensor]]) -> Seen:
        places: list[tuple[str, int, int, bytes]] = []
        refused = set()
        used = 0
        with torch.no_grad():
            for name, tensor in named:
                try:
                    size, length = tensor.element_size(), tensor.numel()
                    start = used // size
                    self._views[tensor.dtype][start : start + length].view(tensor.shape).copy_(tensor)
                except RuntimeError as error:
                    if not names_a_cause(error):
                        raise
                    refused.add(name)
                    continue
                what = f"{tensor.dtype} {[*tensor.shape]} {tensor.requires_grad}".encode()
                places.append((name, used, used + size * length, what))
                used += -(-size * length // 8) * 8
            content = self._bytes[:used].cpu().numpy().tobytes() if used else b""
        values = {name: content[a:b] + what for name, a, b, what in places}
        return Seen(values, frozenset(refused), bytes(torch.mps.get_rng_state().numpy()))
