"""Foundation, dispatch and MetalPerformanceShaders objects, by cases in Objective-C++."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from objective_cases import failure_of, names_in, run_python

TESTS = Path(__file__).parent
SOURCES = sorted([*TESTS.glob("foundation_*_cases.mm"), *TESTS.glob("performance_shaders_*_cases.mm")])


@pytest.mark.parametrize("name", names_in(SOURCES))
def test_case(name: str) -> None:
    failure = failure_of(name)
    assert not failure, failure


def test_exception_in_an_asynchronous_block_ends_the_process() -> None:
    result = run_python("cases.simulator_throw_asynchronously()\n")
    assert result.returncode != 0
    assert "an exception left an asynchronous block: no caller can catch this" in result.stderr


def test_queues_work_while_static_objects_are_destroyed() -> None:
    # The backend's allocator uses its queue after main() has ended.
    program = "import torch; print(torch.ones(3, device='mps').sum().item())"
    result = subprocess.run(
        [sys.executable, "-c", f"import mps_simulator; mps_simulator.install()\n{program}"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=TESTS.parent,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "3.0\n", "")
