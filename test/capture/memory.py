"""How much memory of the device is in use."""

from __future__ import annotations

import gc
import time

from patched import mps


def _level() -> int:
    mps.synchronize()
    return int(mps.current_allocated_memory())


def allocated() -> int:
    """Returns the allocator's level once the device has nothing left to do."""
    level = _level()
    # buffers for scalars are freed by completion handlers, after the wait may have ended
    for _ in range(20):
        time.sleep(0.001)
        before, level = level, _level()
        if level == before:
            break
    return level


def returns_to(expected: int, seconds: float = 1.0) -> bool:
    """Says whether the allocator comes back to a level within a while."""
    end = time.monotonic() + seconds
    while _level() != expected:
        if time.monotonic() > end:
            return False
        gc.collect()
        time.sleep(0.001)
    return True
