"""Puts the simulator under torch while torch is being imported.

Three things must happen at the right moment, so they hang on an import hook:
the library goes into the process before libtorch_cpu (it interposes a few of
its symbols, and torch asks only once whether there is an MPS device), the
bindings go onto ``torch._C`` before the rest of torch looks at it, and Python
modules that the series changes come from the patched checkout.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import linecache
import os
import sys
from contextlib import suppress
from importlib.abc import Loader, MetaPathFinder
from pathlib import Path
from typing import Any, TYPE_CHECKING

from mps_simulator import _extensions
from mps_simulator._build import Build, read_build, SimulatorError
from mps_simulator._sanitizer import check_preloaded

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType


class _CheckoutLoader(importlib.machinery.SourceFileLoader):
    """Loads a module from the checkout and leaves no bytecode there.

    Its code has the path that it has in a wheel, by which Dynamo knows PyTorch's own code.
    """

    def __init__(self, name: str, path: str, in_wheel: Path) -> None:
        super().__init__(name, path)
        self._in_wheel = in_wheel

    def set_data(self, path: str, data: Any, *, _mode: int = 0o666) -> None:
        pass

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:  # type: ignore[override]
        in_wheel = str(self._in_wheel)
        source = importlib.util.decode_source(data)
        # The wheel may have another file at this path. Python does not look for changes of an entry without a time.
        linecache.cache[in_wheel] = (len(source), None, source.splitlines(True), in_wheel)
        return super().source_to_code(data, in_wheel, _optimize=_optimize)

    def exec_module(self, module: ModuleType) -> None:
        # torch finds its libraries next to its own __file__.
        if self.name == "torch":
            module.__file__ = str(self._in_wheel)
        super().exec_module(module)


class _ListedLoader(importlib.machinery.SourceFileLoader):
    """Loads a package of the wheel to which the series adds modules, for code that lists its folder."""

    def __init__(self, name: str, path: str, build: Build) -> None:
        super().__init__(name, path)
        self._build = build

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        module.__file__ = str(self._folder_with_all() / "__init__.py")

    def _folder_with_all(self) -> Path:
        folder = self._build.directory / "packages" / self.name
        folder.mkdir(parents=True, exist_ok=True)
        files = {f.name: f for f in (*Path(self.path).parent.glob("*.py"), *self._build.added_to(self.name))}
        for link in folder.iterdir():
            if link.name not in files:
                link.unlink(missing_ok=True)
        for name, file in files.items():
            link = folder / name
            if not link.is_symlink():
                with suppress(FileExistsError):  # another process was faster
                    link.symlink_to(file)
        return folder


class _BindingLoader(Loader):
    """Loads torch._C between the simulator's library and its bindings."""

    def __init__(self, loader: Loader, build: Build) -> None:
        self._loader = loader
        self._build = build

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        from mps_simulator import _control

        _control.load(self._build.library)
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        name = "mps_simulator.mps_bindings"
        path = str(self._build.bindings)
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise SimulatorError(f"{path} is no extension module of this interpreter")
        bindings = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(bindings)
        sys.modules[name] = bindings


class _Finder(MetaPathFinder):
    """Answers for torch, torch._C and the modules that the series changes."""

    def __init__(self) -> None:
        self._build: Build | None = None

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname != "torch" and not fullname.startswith("torch."):
            return None
        if fullname == "torch":
            self._build = read_build()
            self._check_wheel(self._build)
            check_preloaded(self._build)
            if self._build.bindings is None:
                raise SimulatorError(f"the build in {self._build.library.parent} has no backend for torch in it")
        if self._build is None:
            return None
        if fullname == "torch._C":
            return self._binding_spec(self._build, path)
        spec = self._checkout_spec(self._build, fullname)
        if spec is None and self._build.added_to(fullname):
            spec = importlib.machinery.PathFinder.find_spec(fullname, path)
            if spec is not None and spec.origin is not None:
                spec.loader = _ListedLoader(fullname, spec.origin, self._build)
        if fullname == _extensions.MODULE:
            spec = spec or importlib.machinery.PathFinder.find_spec(fullname, path)
            if spec is not None and spec.loader is not None:
                spec.loader = _extensions.ExtensionLoader(spec.loader, self._build.extension_compiler)
        return spec

    @staticmethod
    def _check_wheel(build: Build) -> None:
        spec = importlib.machinery.PathFinder.find_spec("torch")
        locations = list(spec.submodule_search_locations or ()) if spec else []
        if not locations or not os.path.samefile(locations[0], build.wheel):
            found = f"torch in {locations[0]}" if locations else "no torch"
            raise SimulatorError(
                f"the simulator was built for the torch in {build.wheel}, and this "
                f"interpreter has {found}: use {build.python}, or run `make simulator`"
            )

    @staticmethod
    def _binding_spec(build: Build, path: Sequence[str] | None) -> ModuleSpec | None:
        spec = importlib.machinery.PathFinder.find_spec("torch._C", path)
        if spec is not None and spec.loader is not None:
            spec.loader = _BindingLoader(spec.loader, build)
        return spec

    @staticmethod
    def _checkout_spec(build: Build, fullname: str) -> ModuleSpec | None:
        source = build.changed_modules.get(fullname)
        if source is None:
            return None
        relative = source.relative_to(build.checkout / "torch")
        in_wheel = build.wheel / relative
        loader = _CheckoutLoader(fullname, str(source), in_wheel)
        locations: list[str] | None = None
        if source.name == "__init__.py":
            # torch.mps belongs to the series and comes from the checkout as a
            # whole; other packages have their unchanged modules in the wheel.
            own = fullname == "torch.mps" or not in_wheel.exists()
            locations = [str((source if own else in_wheel).parent)]
        return importlib.util.spec_from_file_location(
            fullname,
            str(source),
            loader=loader,
            submodule_search_locations=locations,
        )


def is_installed() -> bool:
    """Says whether torch has, or will have, the simulated device here."""
    return any(isinstance(finder, _Finder) for finder in sys.meta_path)


def install() -> None:
    """Makes the next ``import torch`` bring the simulated MPS device.

    Child processes of the same virtual environment get it too. Calling this
    again does nothing.

    Raises:
        SimulatorError: torch is already imported. A missing build is reported
            by ``import torch``.
    """
    if is_installed():
        return
    if "torch" in sys.modules:
        raise SimulatorError(
            "torch is already imported, too late for the simulator: call "
            "mps_simulator.install() before the first `import torch`"
        )
    os.environ["MPS_SIMULATOR"] = "1"
    sys.meta_path.insert(0, _Finder())
    _answer_as_macos()


def _answer_as_macos() -> None:
    """Lets ``platform.mac_ver`` name the simulated version.

    PyTorch's tests choose what to expect by it. It is looked up when it is
    called, since importing platform costs every process a little.
    """
    version = os.environ.get("MPS_SIMULATOR_MACOS") or "15.2"

    def mac_ver(
        release: str = "",
        versioninfo: tuple[str, str, str] = ("", "", ""),
        machine: str = "",
    ) -> tuple[str, tuple[str, str, str], str]:
        return version, versioninfo, "arm64"

    import platform

    platform.mac_ver = mac_ver
