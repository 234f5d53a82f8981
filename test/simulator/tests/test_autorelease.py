"""What the backend autoreleases where no pool is open: on Python's main thread there is none, on macOS neither."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import torch

import mps_simulator

if TYPE_CHECKING:
    from collections.abc import Callable


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


def test_pools_are_opened_until_the_process_ends() -> None:
    """The allocator's destructor opens one, if work is outstanding."""
    program = "import torch; torch.sin(torch.ones(4, 4, device='mps'))"
    result = subprocess.run(
        [sys.executable, "-m", "mps_simulator", "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")
