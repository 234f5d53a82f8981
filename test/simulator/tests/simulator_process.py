"""Python programs in processes of their own, which have the simulator and the cases in Objective-C++."""

from __future__ import annotations

import subprocess
import sys

from mps_simulator._build import read_build
from objective_cases import LIBRARY

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
