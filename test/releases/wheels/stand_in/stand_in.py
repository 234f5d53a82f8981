"""Load the stand-in device, then torch with the series' bindings on it. Run by the environment of a newer release."""

import ctypes
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


class _BeforeMPS:
    """Puts the bindings on torch._C before torch.mps looks for them."""

    def __init__(self, folder: Path):
        self.folder = folder

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == "torch.mps":
            spec = importlib.util.spec_from_file_location("stand_in_bindings", self.folder / "stand_in_bindings.so")
            assert spec and spec.loader
            bindings = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(bindings)
            bindings.install(sys.modules["torch._C"])
            sys.modules["torch._C"]._has_mps = True  # type: ignore[attr-defined]


def load(folder: Path, adapter: bool = True) -> tuple[ModuleType, Any]:
    """Import torch on the stand-in device; returns it, and a function that takes the calls since the last time.

    Without the adapter torch.accelerator does not know of graphs on the device.
    """
    # torch asks for the device while it is imported.
    library = ctypes.CDLL(str(folder / "libstand_in.so"), ctypes.RTLD_GLOBAL)
    if adapter:
        ctypes.CDLL(str(folder / "libmps_accelerator_graph.so"), ctypes.RTLD_GLOBAL)
    sys.meta_path.insert(0, _BeforeMPS(folder))
    import torch

    library.stand_in_calls.restype = ctypes.c_char_p

    def calls() -> list[str]:
        return str(library.stand_in_calls().decode()).splitlines()

    return torch, calls
