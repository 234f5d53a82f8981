"""What the backend autoreleases where no pool is open: on Python's main thread there is none, on macOS neither."""

from __future__ import annotations

import threading
from typing import Any, TYPE_CHECKING

import pytest
import torch
from test_package import run

import mps_simulator

if TYPE_CHECKING:
    from collections.abc import Callable


# The base's has no graphs, as far as a type checker can see.
mps: Any = torch.mps


def leaks_of(work: Callable[[], object]) -> dict[str, int]:
    """Returns what one run of the work leaks, once its caches are full."""
    work()
    torch.mps.synchronize()
    mps_simulator.reset_autorelease_leaks()
    work()
    torch.mps.synchronize()
    return mps_simulator.autorelease_leaks()


@pytest.fixture
def x() -> torch.Tensor:
    return torch.arange(8, device="mps")


def test_operators_with_a_pool_leak_nothing(x: torch.Tensor) -> None:
    assert leaks_of(lambda: x + 1) == {}


def test_what_the_backend_leaks_is_counted(x: torch.Tensor) -> None:
    # Known of PyTorch 2.6.0: bitwise operators encode outside of any pool.
    assert leaks_of(lambda: x & x) != {}


def test_a_pool_of_the_program_takes_it(x: torch.Tensor) -> None:
    def work() -> None:
        with mps_simulator.autorelease_pool():
            _ = x & x

    assert leaks_of(work) == {}


@pytest.mark.skipif(not hasattr(mps, "MPSGraph"), reason="this checkout has no graph capture")
@pytest.mark.parametrize("on_thread", [False, True], ids=["main thread", "thread"])
def test_replays_leak_nothing(on_thread: bool) -> None:
    """Steps of each kind, and errors that a replay looks for; also as a part of another capture."""
    a = torch.randn(8, 8, device="mps")
    total = torch.zeros(8, 8, device="mps")
    numbers = torch.arange(8.0)

    def block() -> None:
        total.add_(torch.mm(a, a).softmax(0))
        total[2:4].copy_(total[4:6])
        total[0].fill_(0)
        total[1].copy_(numbers)
        total.add_(torch.rand_like(total))
        total.add_(total.int() & 3)
        torch.linalg.solve_triangular(a.triu() + 8, total, upper=True)

    graph, outer = mps.MPSGraph(), mps.MPSGraph()
    with mps.graph(graph):
        block()
    with mps.graph(outer):
        graph.replay()
        total.mul_(0.5)
    kinds = {name: count for name, count in graph.stats().items() if count}
    assert {"kernels", "graph_runs", "copies", "fills", "host_refreshes"} <= set(kinds), kinds
    found: list[dict[str, int]] = []

    def replay_both() -> None:
        found.append(leaks_of(lambda: (graph.replay(), outer.replay())))

    if on_thread:
        thread = threading.Thread(target=replay_both)
        thread.start()
        thread.join()
    else:
        replay_both()
    assert found == [{}]


def test_pools_are_opened_until_the_process_ends() -> None:
    """The allocator's destructor opens one, and uses its queue, after main() has ended."""
    program = "import torch; torch.sin(torch.ones(4, 4, device='mps'))"
    result = run("-m", "mps_simulator", "-c", program)
    assert (result.returncode, result.stderr) == (0, "")
