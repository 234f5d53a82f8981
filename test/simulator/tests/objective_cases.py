"""The cases that are written in Objective-C++: ``CASE(name)`` in the sources, built into one library."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from mps_simulator._build import build_directory, built_for_tests, read_build

if TYPE_CHECKING:
    from collections.abc import Iterable

LIBRARY = build_directory() / "libsimulator_cases.so"


def names_in(sources: Iterable[Path]) -> list[str]:
    """Returns the names that the sources give to their cases."""
    lines = (line for source in sources for line in source.read_text().splitlines())
    return [line[len("CASE(") :].partition(")")[0] for line in lines if line.startswith("CASE(")]


@cache
def cases_library() -> ctypes.CDLL:
    """Loads the built cases, behind the simulator that conftest.py has loaded."""
    library = ctypes.CDLL(str(built_for_tests(LIBRARY.name, Path(__file__).parent.glob("*.mm"))))
    library.simulator_case_names.restype = ctypes.c_char_p
    library.simulator_run_case.restype = ctypes.c_char_p
    library.simulator_run_case.argtypes = [ctypes.c_char_p]
    return library


def built_names() -> set[str]:
    """Returns the names of the cases in the library."""
    return set(cases_library().simulator_case_names().decode().split("\n"))


def failure_of(name: str) -> str:
    """Runs a case; returns what went wrong, or nothing."""
    return cases_library().simulator_run_case(name.encode()).decode()


START = (
    "import ctypes, os, sys\n"
    "library = ctypes.CDLL({library!r}, ctypes.RTLD_GLOBAL)\n"
    "cases = ctypes.CDLL({cases!r})\n"
    "cases.simulator_run_case.restype = ctypes.c_char_p\n"
    "def run(name):\n"
    "    return cases.simulator_run_case(name.encode()).decode()\n"
)


def run_python(program: str) -> subprocess.CompletedProcess[str]:
    """Runs a program that has the simulator's library as ``library``, and cases by ``run(name)``."""
    start = START.format(library=str(read_build().library), cases=str(LIBRARY))
    return subprocess.run(
        [sys.executable, "-c", start + program], capture_output=True, text=True, timeout=120, check=False
    )
