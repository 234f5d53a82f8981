"""Work in other threads, with a time limit."""

import functools
import sys
import threading
from collections.abc import Callable, Sequence

import torch

CALLS = 10
TIMEOUT = 20.0  # seconds, for calls of less than a millisecond
SWITCH_INTERVAL = 1e-5


class Hang(Exception):
    """A thread did not come back. The process is of no use after that."""


def run_threads(*works: Callable[[], object], timeout: float = TIMEOUT) -> None:
    """Runs each in a thread, waits for all, and raises the first error."""
    errors: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout)
    if any(thread.is_alive() for thread in threads):
        raise Hang("a thread did not come back")
    if errors:
        raise errors[0]


def call_from_threads(
    function: Callable[[torch.Tensor], torch.Tensor], inputs: Sequence[torch.Tensor]
) -> list[list[torch.Tensor]]:
    """Returns for each input two results, which stand for all of its thread: the first, and one that differs if any does."""
    made: list[list[torch.Tensor]] = [[] for _ in inputs]
    barrier = threading.Barrier(len(inputs))

    def work(number: int) -> None:
        with torch.no_grad():
            barrier.wait(TIMEOUT)
            for _ in range(CALLS):
                made[number].append(function(inputs[number]))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL)
    try:
        run_threads(*(functools.partial(work, i) for i in range(len(inputs))))
    finally:
        sys.setswitchinterval(interval)
    return [[results[0], _most_different(results)] for results in made]


def _most_different(results: Sequence[torch.Tensor]) -> torch.Tensor:
    values = torch.stack([*results]).cpu()
    # which of them is right is not known here: the one that is seen least
    counts = [sum(torch.equal(one, other) for other in values) for one in values]
    return results[counts.index(min(counts))]
