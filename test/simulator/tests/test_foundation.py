"""Foundation, dispatch and MetalPerformanceShaders objects, by cases in Objective-C++."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from mps_simulator._build import build_directory, read_build

TESTS = Path(__file__).parent
SOURCES = sorted([*TESTS.glob("foundation_*_cases.mm"), *TESTS.glob("performance_shaders_*_cases.mm")])


def case_names() -> list[str]:
    """Returns the names that the sources give to their cases."""
    lines = (line for source in SOURCES for line in source.read_text().splitlines())
    return [line[len("CASE(") :].partition(")")[0] for line in lines if line.startswith("CASE(")]


@cache
def case_library() -> ctypes.CDLL:
    """Loads the built cases, behind the simulator that conftest.py has loaded."""
    library = ctypes.CDLL(str(build_directory() / "libsimulator_cases.so"))
    library.simulator_case_names.restype = ctypes.c_char_p
    library.simulator_run_case.restype = ctypes.c_char_p
    library.simulator_run_case.argtypes = [ctypes.c_char_p]
    return library


def test_every_case_is_built() -> None:
    assert SOURCES
    built = set(case_library().simulator_case_names().decode().split("\n"))
    assert set(case_names()) <= built


@pytest.mark.parametrize("name", case_names())
def test_case(name: str) -> None:
    failure = case_library().simulator_run_case(name.encode()).decode()
    assert not failure, failure


def test_exception_in_an_asynchronous_block_ends_the_process() -> None:
    program = (
        "import ctypes\n"
        f"ctypes.CDLL({str(read_build().library)!r}, ctypes.RTLD_GLOBAL)\n"
        f"cases = ctypes.CDLL({str(build_directory() / 'libsimulator_cases.so')!r})\n"
        "cases.simulator_throw_asynchronously()\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode != 0
    assert "an exception left an asynchronous block: nobody can catch this" in result.stderr


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
