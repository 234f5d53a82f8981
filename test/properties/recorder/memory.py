"""How much memory of the device is in use."""

import gc
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import mps
from torch.utils._python_dispatch import TorchDispatchMode

# Seconds. Each failing example waits as long, and there are hundreds while hypothesis looks for a small one.
PATIENCE = 1.0


def _level() -> int:
    # Completion handlers free memory, in order; the wait includes this number's, which is the last.
    torch.ones(1, device="mps").add(1.0, alpha=2.0)
    mps.synchronize()
    return int(mps.current_allocated_memory())


def allocated() -> int:
    """Returns the allocator's level once the device has nothing left to do and garbage is gone."""
    gc.collect()
    level = _level()
    # buffers for scalars are freed by completion handlers, after the wait may have ended
    for _ in range(20):
        time.sleep(0.001)
        before, level = level, _level()
        if level == before:
            break
    return level


def _comes(is_there: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE
    while not is_there():
        if time.monotonic() > end:
            return False
        gc.collect()
        time.sleep(0.001)
    return True


def returns_to(expected: int) -> bool:
    """Says whether the allocator comes back to a level within a while."""
    return _comes(lambda: _level() == expected)


def falls_to(most: int) -> bool:
    """Says whether the allocator comes down to a level, or below it, within a while."""
    return _comes(lambda: _level() <= most)


class Peak(TorchDispatchMode):
    """The highest level seen after an operator."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        self.bytes = max(self.bytes, int(mps.current_allocated_memory()))
        return result
