"""The *bare loop*: the framework calls of one replay, recorded once and made again, which no replay can be faster than."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import torch

import mps_simulator
from benchmark.case import NotRun, Replay

SOURCE = Path(__file__).with_name("bare_loop.mm")
REPOSITORY = SOURCE.parents[3]
LIBRARY = REPOSITORY / "build" / "benchmark" / "libbare_loop.so"
# What the host asks of its own buffers, and what handlers ask afterwards on their own threads.
_BESIDE = ("-[MTLBuffer contents]", "-[MTLCommandBuffer status]")
_FLAGS = ("-std=gnu++17", "-O2", "-fPIC", "-fvisibility=hidden", "-shared")


def build(library: Path = LIBRARY) -> Path:
    """Compile the recorder if it is older than its source or the simulator."""
    simulator = Path(os.environ.get("MPS_SIMULATOR_BUILD") or REPOSITORY / "build" / "simulator")
    compiler = simulator / "bin" / "mps-clang++"
    if not compiler.exists():
        raise NotRun(f"the simulator's build lacks {compiler.name}: run `make simulator`")
    newest = max(path.stat().st_mtime for path in (SOURCE, simulator / "libmps_simulator.so"))
    if library.exists() and library.stat().st_mtime > newest:
        return library
    library.parent.mkdir(parents=True, exist_ok=True)
    made = library.with_suffix(f".{os.getpid()}")
    include = Path(torch.__file__).parent / "include"
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"
    command = [str(compiler), *_FLAGS, abi, "-isystem", str(include), "-o", str(made), str(SOURCE)]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        print(run.stderr, file=sys.stderr)
        raise NotRun(f"{SOURCE.name} does not compile")
    made.replace(library)
    return library


@cache
def _loaded() -> ctypes.CDLL:
    library = ctypes.CDLL(str(build()))
    library.bare_loop_stop.restype = ctypes.c_void_p
    library.bare_loop_free.argtypes = [ctypes.c_void_p]
    library.bare_loop_steps_before_commit.argtypes = [ctypes.c_void_p]
    library.bare_loop_steps_before_commit.restype = ctypes.c_size_t
    library.bare_loop_run.argtypes = [ctypes.c_void_p]
    return library


class BareLoop:
    """The calls of one replay."""

    def __init__(self, replay: Replay) -> None:
        """Records one replay."""
        library = _loaded()
        replay.run()  # so that nothing is recorded that only the first one does
        library.bare_loop_start()
        try:
            with mps_simulator.autorelease_pool():
                replay.run()
        finally:
            self._recording: int = library.bare_loop_stop()
        missing = self._missing(replay)
        if missing:
            raise NotRun(f"the recorder does not know all calls of the replay: {', '.join(missing)}")

    def run(self) -> None:
        """Make the calls as they were."""
        _loaded().bare_loop_run(self._recording)

    def steps_before_commit(self) -> int:
        """How many steps the replay encodes before its first commit."""
        count: int = _loaded().bare_loop_steps_before_commit(self._recording)
        return count

    @staticmethod
    def wait() -> None:
        """Wait until all that was made is done."""
        _loaded().bare_loop_wait()

    def _missing(self, replay: Replay) -> dict[str, int]:
        """Calls of a replay that the bare loop makes more (negative) or less often, by selector."""
        counts = []
        for run, wait in ((replay.run, torch.mps.synchronize), (self.run, self.wait)):
            run()
            mps_simulator.reset_counters()
            run()
            counts.append(mps_simulator.counters())
            wait()
        names = sorted(set(counts[0]) | set(counts[1]))
        differences = {name: counts[0].get(name, 0) - counts[1].get(name, 0) for name in names}
        return {name: count for name, count in differences.items() if count and name not in _BESIDE}

    def __del__(self) -> None:
        _loaded().bare_loop_free(self._recording)
