"""Runs a case of ``tests/sanitizer_cases.mm`` in a process of its own, on the build that this run is for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from mps_simulator._build import read_build
from mps_simulator._sanitizer import STATUS

__all__ = ["STATUS", "run_case"]

_PROGRAM = """
import ctypes, os, sys
from pathlib import Path
library = Path(os.environ["MPS_SIMULATOR_BUILD"])
ctypes.CDLL(str(library / "libmps_simulator.so"), ctypes.RTLD_GLOBAL)
cases = ctypes.CDLL(str(library / "libsimulator_cases.so"))
cases.simulator_run_case.restype = ctypes.c_char_p
sys.exit(cases.simulator_run_case(sys.argv[1].encode()).decode() or 0)
"""


def run_case(name: str) -> tuple[int, str]:
    """Returns the exit status and all that was printed."""
    environment = dict(os.environ)
    for variable in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"):
        # This report is expected: it must not be counted with those of the run.
        environment[variable] = ":".join(filter(None, (environment.get(variable), "log_path=stderr")))
    build = Path(read_build().library).parent
    done = subprocess.run(
        [sys.executable, "-m", "mps_simulator", "--build", str(build), "-c", _PROGRAM, name],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr
