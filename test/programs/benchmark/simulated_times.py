"""Times of calls on the simulator while it encodes and does not execute (null mode)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch

import mps_simulator


@contextmanager
def not_executed() -> Iterator[None]:
    """In the block work is encoded, neither executed nor validated; at its end the device is idle."""
    with mps_simulator.null_mode(), mps_simulator.validation(False):
        yield
        torch.mps.synchronize()


def microseconds(
    runs: Mapping[str, Callable[[], object]],
    calls: int,
    trials: int,
    clock: Callable[[], float] = time.thread_time,
) -> dict[str, list[float]]:
    """µs of a call in each trial; the runs take turns, so that what else the machine does hits all alike."""
    taken: dict[str, list[float]] = {name: [] for name in runs}
    with not_executed():
        for _ in range(trials):
            for name, run in runs.items():
                torch.mps.synchronize()
                with mps_simulator.autorelease_pool():
                    begin = clock()
                    for _ in range(calls):
                        run()
                    taken[name].append((clock() - begin) / calls * 1e6)
    return taken
