"""Control of the simulated device, through the library's C functions."""

from __future__ import annotations

import ctypes
import json
import os
from contextlib import contextmanager
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
    """Returns the number of API calls by selector since the last reset.

    Example::

        >>> mps_simulator.counters()
        {'-[MTLCommandBuffer commit]': 3, …}
    """
    return _counts("counters_json")


def reset_counters() -> None:
    """Starts counting API calls from zero."""
    _loaded().mps_simulator_reset_counters()


def live_objects() -> dict[str, int]:
    """Returns the number of objects alive, by class."""
    return _counts("live_objects_json")


def autorelease_leaks() -> dict[str, int]:
    """Returns what was autoreleased where no pool was open, by class, since the last reset.

    macOS keeps such objects until their thread ends. ``(pools never drained)``
    counts the pools that were still open when their thread ended.
    """
    return _counts("autorelease_leaks_json")


def reset_autorelease_leaks() -> None:
    """Starts counting what is autoreleased without a pool from zero."""
    _loaded().mps_simulator_reset_autorelease_leaks()


def raised_errors() -> dict[str, int]:
    """Returns what the simulator has complained about, caught or not, and how often.

    Each entry begins with its kind: ``unsupported`` for what is not simulated,
    ``violation`` for misuse of the API, ``execution`` for other failures of commands.
    """
    return _counts("raised_errors_json")


def forget_raised_errors() -> None:
    """Clears the list of what the simulator has complained about."""
    _loaded().mps_simulator_forget_raised_errors()


def functions_run() -> list[int]:
    """Returns which functions of the backend's operations ran since they were last forgotten, by offset in the library.

    Empty in a build with a sanitizer. `mps_simulator.touched` tells the files.
    """
    offsets: list[int] = json.loads(_text("functions_run_json"))
    return offsets


def forget_functions_run() -> None:
    """Clears the list of functions that ran."""
    _loaded().mps_simulator_forget_functions_run()


def restart_thread_orders() -> None:
    """Makes kernels run their threads in the same orders again as after the start of the process.

    Metal promises none, so each dispatch has another one, by MPS_SIMULATOR_SEED.
    """
    _loaded().mps_simulator_restart_thread_orders()


def signposts() -> list[dict[str, str | int]]:
    """Returns the signposts that were emitted since the last reset, as a list.

    Instruments shows them on a Mac. Each has a subsystem, a category, a type
    (event, begin or end), an id, a name and a message; the last 4,096 are kept.
    """
    found: list[dict[str, str | int]] = json.loads(_text("signposts_json"))
    return found


def reset_signposts() -> None:
    """Forgets the signposts that were emitted."""
    _loaded().mps_simulator_reset_signposts()


@contextmanager
def autorelease_pool() -> Iterator[None]:
    """Gives back at the end of the block what was autoreleased in it.

    Python's main thread has no pool, on macOS neither, and some operators of
    the backend autorelease objects outside of their own: without this they
    live until the thread ends.
    """
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


def set_null_mode(enabled: bool) -> None:
    """Turns null mode on or off: commands are encoded but not executed.

    Results are garbage in it; it serves to measure the CPU's side alone.
    """
    _loaded().mps_simulator_set_null_mode(int(enabled))


@contextmanager
def null_mode() -> Iterator[None]:
    """Runs the block in null mode, then returns to the mode before."""
    library = _loaded()
    before = library.mps_simulator_null_mode()
    library.mps_simulator_set_null_mode(1)
    try:
        yield
    finally:
        library.mps_simulator_set_null_mode(before)


def set_validation(enabled: bool) -> None:
    """Turns the checks of Metal's API validation layer on (default) or off."""
    _loaded().mps_simulator_set_validation(int(enabled))


@contextmanager
def validation(enabled: bool) -> Iterator[None]:
    """Runs the block with API validation on or off."""
    library = _loaded()
    before = library.mps_simulator_validation()
    library.mps_simulator_set_validation(int(enabled))
    try:
        yield
    finally:
        library.mps_simulator_set_validation(before)


def set_delay(microseconds: int, seed: int = 0) -> None:
    """Makes the GPU thread pause before its work, at random up to the time given.

    Code that reads a buffer without waiting for the GPU then reads stale data
    reliably instead of rarely. Zero turns it off.
    """
    if microseconds < 0:
        raise ValueError(f"a delay cannot be negative: {microseconds}")
    _loaded().mps_simulator_set_delay_us(microseconds, seed)
