"""Lets torch.utils.cpp_extension build Objective-C++ for the simulated device.

On a Mac the compiler that torch finds knows Apple's frameworks and links
against a torch that has the MPS backend. Here that is the build's own compiler,
a script around clang, which torch gets unless ``CXX`` names another.
"""

from __future__ import annotations

import os
from importlib.abc import Loader
from typing import TYPE_CHECKING

from mps_simulator._build import SimulatorError

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from pathlib import Path
    from types import ModuleType

MODULE = "torch.utils.cpp_extension"


class ExtensionLoader(Loader):
    """Loads torch.utils.cpp_extension, then gives it the compiler."""

    def __init__(self, loader: Loader, compiler: Path) -> None:
        self._loader = loader
        self._compiler = compiler

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)

        def get_cxx_compiler() -> str:
            chosen = os.environ.get("CXX")
            if chosen:
                return chosen
            if not self._compiler.exists():
                raise SimulatorError(f"the simulator's build lacks {self._compiler}: run `make simulator`")
            return str(self._compiler)

        # Upstream looks at where a public function says that it comes from.
        get_cxx_compiler.__module__ = module.__name__
        module.get_cxx_compiler = get_cxx_compiler  # type: ignore[attr-defined]
