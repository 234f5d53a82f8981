"""Stands for the backend that the official libtorch_cpu for macOS has in it, and tells at exit what ran of it."""

import atexit
import ctypes
import json
import os
import sys
from pathlib import Path

from mps_simulator import _control
from mps_simulator._build import read_build, SimulatorError

# What ran before the counters were last reset.
_earlier: set[int] = set()


def _tell(directory: Path) -> None:
    from torch import _mps_graph_loader

    try:
        _earlier.update(_control.functions_run())
    except SimulatorError:
        return  # A forked child.
    patched: list[int] = []
    library = _mps_graph_loader._library
    if library is not None:
        library.torch_mps_graph_functions_run.restype = ctypes.c_char_p
        patched = json.loads(library.torch_mps_graph_functions_run())
    told = {
        "in charge": _mps_graph_loader.in_charge(),
        "reason": _mps_graph_loader.reason(),
        "trouble": _mps_graph_loader.trouble(),
        "official": sorted(_earlier),
        "patched": patched,
        "program": sys.argv,
    }
    (directory / f"{os.getpid()}.json").write_text(json.dumps(told))


def load() -> None:
    """Loads the backend of the base, and counts from now on which of its functions run."""
    _control.load(read_build().library)
    _control.forget_functions_run()
    directory = os.environ.get("MPS_LAYERED_REPORTS")
    if directory:
        atexit.register(_tell, Path(directory))
        _tell_before_each_reset(Path(directory))


def _tell_before_each_reset(directory: Path) -> None:
    """The workers of mps_simulator.run_test_mps reset the counters before each test, and do not end by themselves."""
    worker = sys.modules.get("mps_simulator.worker")
    reset = getattr(worker, "forget_functions_run", None)
    if reset is None:
        return

    def tell_and_reset() -> None:
        _tell(directory)
        reset()

    worker.forget_functions_run = tell_and_reset  # type: ignore[attr-defined]
