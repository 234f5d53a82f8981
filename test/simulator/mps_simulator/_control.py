"""Control of the simulated device, through the library's C functions."""

from __future__ import annotations

import ctypes
import json
import os
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from mps_simulator._build import SimulatorError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_library: ctypes.CDLL | None = None
_forked = False

_TEXT_FUNCTIONS = (
    "autorelease_leaks_json",
    "counters_json",
    "functions_run_json",
    "live_objects_json",
    "macos_version",
    "raised_errors_json",
    "signposts_json",
)


def load(path: Path) -> None:
    """Loads the simulator's library so that libtorch_cpu sees its symbols."""
    global _library
    if _library is not None:
        return
    try:
        library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise SimulatorError(f"{path} cannot be loaded ({error}): run `make simulator` again") from error
    for name in _TEXT_FUNCTIONS:
        getattr(library, f"mps_simulator_{name}").restype = ctypes.c_char_p
    library.objc_autoreleasePoolPush.restype = ctypes.c_void_p
    library.objc_autoreleasePoolPop.argtypes = [ctypes.c_void_p]
    library.mps_simulator_set_delay_us.argtypes = [ctypes.c_int, ctypes.c_uint64]
    os.register_at_fork(after_in_child=_after_fork)
    _library = library


def _after_fork() -> None:
    global _forked
    _forked = True


def _loaded() -> ctypes.CDLL:
    if _forked:
        raise SimulatorError(
            "the simulated device does not survive fork(): start the process "
            "with the 'spawn' method (torch.multiprocessing.set_start_method)"
        )
    if _library is None:
        raise SimulatorError(
            "the simulator is not running in this process: call mps_simulator.install() before `import torch`"
        )
    return _library


def _text(name: str) -> str:
    text: bytes = getattr(_loaded(), f"mps_simulator_{name}")()
    return text.decode()


def _counts(name: str) -> dict[str, int]:
    counts: dict[str, int] = json.loads(_text(name))
    return counts


def counters() -> dict[str, int]:
    """Returns the number of API calls by selector, like ``-[MTLCommandBuffer commit]``, since the last reset."""
    return _counts("counters_json")


def reset_counters() -> None:
    """Starts counting API calls from zero."""
    _loaded().mps_simulator_reset_counters()


def handler_wakes() -> int:
    """Returns how often a command buffer woke the thread of completion handlers since the process began."""
    wakes: int = _loaded().mps_simulator_handler_wakes()
    return wakes


def live_objects() -> dict[str, int]:
    """Returns the number of objects alive, by class."""
    return _counts("live_objects_json")


def autorelease_leaks() -> dict[str, int]:
    """Returns what was autoreleased where no pool was open, by class, since the last reset.

    ``(pools never drained)`` counts the pools that were still open when their thread ended.
    """
    return _counts("autorelease_leaks_json")


def reset_autorelease_leaks() -> None:
    """Starts counting what is autoreleased without a pool from zero."""
    _loaded().mps_simulator_reset_autorelease_leaks()


def raised_errors() -> dict[str, int]:
    """Returns what the simulator has complained about, caught or not, and how often.

    Each begins with its kind: ``unsupported``, ``violation`` (misuse), or ``execution`` for other failures of commands.
    """
    return _counts("raised_errors_json")


def forget_raised_errors() -> None:
    """Clears the list of what the simulator has complained about."""
    _loaded().mps_simulator_forget_raised_errors()


def functions_run() -> list[int]:
    """Returns the offsets in the library of the backend's operations that ran; none in a build with a sanitizer."""
    offsets: list[int] = json.loads(_text("functions_run_json"))
    return offsets


def forget_functions_run() -> None:
    """Clears the list of functions that ran."""
    _loaded().mps_simulator_forget_functions_run()


def restart_thread_orders() -> None:
    """Makes kernels run their threads in the same orders again as after the start of the process."""
    _loaded().mps_simulator_restart_thread_orders()


def signposts() -> list[dict[str, str | int]]:
    """Returns the last 4,096 signposts since the last reset: subsystem, category, type, id, name and message of each."""
    found: list[dict[str, str | int]] = json.loads(_text("signposts_json"))
    return found


def reset_signposts() -> None:
    """Forgets the signposts that were emitted."""
    _loaded().mps_simulator_reset_signposts()


@contextmanager
def autorelease_pool() -> Iterator[None]:
    """Gives back at the end of the block what was autoreleased in it; Python's main thread has no pool by itself."""
    library = _loaded()
    pool = library.objc_autoreleasePoolPush()
    try:
        yield
    finally:
        library.objc_autoreleasePoolPop(pool)


def macos_version() -> tuple[int, int]:
    """Returns the macOS version that the simulator reports."""
    major, minor = _text("macos_version").split(".")
    return int(major), int(minor)


@contextmanager
def _switched(name: str, enabled: bool) -> Iterator[None]:
    library = _loaded()
    before = getattr(library, f"mps_simulator_{name}")()
    switch = getattr(library, f"mps_simulator_set_{name}")
    switch(int(enabled))
    try:
        yield
    finally:
        switch(before)


def null_mode() -> AbstractContextManager[None]:
    """Runs the block in null mode: commands are encoded but not executed, to measure the CPU's side alone."""
    return _switched("null_mode", True)


def validation(enabled: bool) -> AbstractContextManager[None]:
    """Runs the block with the checks of Metal's API validation layer on or off."""
    return _switched("validation", enabled)


def set_delay(microseconds: int, seed: int = 0) -> None:
    """Makes the GPU thread pause before its work, at random up to the time given, so that reads that do not wait show."""
    if microseconds < 0:
        raise ValueError(f"a delay cannot be negative: {microseconds}")
    _loaded().mps_simulator_set_delay_us(microseconds, seed)
