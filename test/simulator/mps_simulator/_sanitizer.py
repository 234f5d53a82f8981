"""Starts an uninstrumented interpreter so that it can load a build with sanitizers."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

from mps_simulator._build import SimulatorError

if TYPE_CHECKING:
    from mps_simulator._build import Build

# A report must not be missed: it ends the process, with a status that nothing else has.
STATUS = 66
_COMMON = f"halt_on_error=1:exitcode={STATUS}"

# detect_leaks: what the interpreter, the wheel and ObjFW keep until the end would be all of the report;
# soak.py counts what piles up.
# detect_stack_use_after_return: it moves locals to another stack, and Python measures the one it is on.
# allocator_may_return_null: tests ask for impossible sizes and expect an exception.
# quarantine_size_mb: tensors of tests are large, and a worker keeps many.
_ADDRESS = "detect_leaks=0:detect_stack_use_after_return=0:allocator_may_return_null=1:quarantine_size_mb=64"
_UNDEFINED = "print_stacktrace=1"
# ignore_noninstrumented_modules: Python, the wheel and ObjFW synchronize by means that are not seen.
_THREAD = "ignore_noninstrumented_modules=1:second_deadlock_stack=1"


def _options(name: str, ours: str) -> str:
    # The user's come last and win.
    return ":".join(part for part in (_COMMON, ours, os.environ.get(name, "")) if part)


def environment(build: Build) -> dict[str, str]:
    """Returns the variables that a process with this build must be started with."""
    if not build.sanitizer:
        return {}
    # The runtime takes the first name that it finds, also a link to nothing.
    symbolizer = shutil.which("llvm-symbolizer-19") or shutil.which("llvm-symbolizer")
    # This sanitizer has no variable of that kind, and needs a program to name lines.
    lines = symbolizer or shutil.which("addr2line")
    return {
        **({"ASAN_SYMBOLIZER_PATH": symbolizer} if symbolizer else {}),
        # Exceptions are intercepted, so what throws them must be there when the runtime starts.
        "LD_PRELOAD": f"{build.sanitizer_runtime}:libstdc++.so.6",
        "ASAN_OPTIONS": _options("ASAN_OPTIONS", _ADDRESS),
        "UBSAN_OPTIONS": _options("UBSAN_OPTIONS", _UNDEFINED),
        "TSAN_OPTIONS": _options("TSAN_OPTIONS", f"{_THREAD}:external_symbolizer_path={lines}" if lines else _THREAD),
    }


def _is_preloaded(build: Build) -> bool:
    return build.sanitizer_runtime in os.environ.get("LD_PRELOAD", "").split(":")


def preload(build: Build) -> None:
    """Starts this process again with the build's runtime in it, unless it is there."""
    if build.sanitizer and not _is_preloaded(build):
        sys.stdout.flush()
        os.execve(sys.executable, sys.orig_argv, os.environ | environment(build))


def check_preloaded(build: Build) -> None:
    """Refuses a build whose runtime is not there, which would end the process."""
    if build.sanitizer and not _is_preloaded(build):
        raise SimulatorError(
            f"the simulator in {build.library.parent} is built with -fsanitize={build.sanitizer}, whose runtime "
            "must be there when the interpreter starts: start the program with `python -m mps_simulator`"
        )
