"""Stands for the backend that the official libtorch_cpu for macOS has in it, and tells at exit what ran of it."""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import sys
from pathlib import Path

from mps_simulator import _control
from mps_simulator._build import read_build, SimulatorError


def _tell(directory: Path) -> None:
    from torch import _mps_graph_loader

    try:
        official = _control.functions_run()
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
        "official": official,
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
