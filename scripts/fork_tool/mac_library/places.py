"""Where the parts of the Mac's wheel lie, all below build/mac_library."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

LIBRARY = "libtorch_mps_graph.dylib"
TORCH_LIBRARIES = ("libtorch_cpu.dylib", "libtorch_python.dylib", "libc10.dylib")


@dataclass(frozen=True)
class MacPlaces:
    """The directories of one build."""

    # Of this repository: compilers are given paths from here, so that none of the machine's gets into the library.
    repository: Path

    @property
    def root(self) -> Path:
        return self.repository / "build" / "mac_library"

    @property
    def tools(self) -> Path:
        return self.root / "tools"

    @property
    def zig(self) -> Path:
        return self.tools / "ziglang" / "zig"

    @property
    def compiler(self) -> Path:
        return self.tools / "mac-clang++"

    @property
    def compiler_environment(self) -> dict[str, str]:
        """Where the compiler keeps what it makes on its way."""
        kept = str(self.root / "zig")
        return {"ZIG_GLOBAL_CACHE_DIR": kept, "ZIG_LOCAL_CACHE_DIR": kept}

    @property
    def ninja(self) -> Path:
        return self.tools / "bin" / "ninja"

    @property
    def include(self) -> Path:
        """Apple's headers, as far as there are any."""
        return self.root / "include"

    @property
    def packages(self) -> Path:
        """Debian's packages, unpacked."""
        return self.root / "packages"

    @property
    def generated(self) -> Path:
        return self.root / "generated"

    @property
    def stubs(self) -> Path:
        return self.root / "stubs"

    @property
    def ninja_file(self) -> Path:
        return self.root / "build.ninja"

    @property
    def dist(self) -> Path:
        return self.repository / "dist"

    @property
    def own(self) -> Path:
        """What this repository has for the library."""
        return self.repository / "scripts" / "mac_wheel"

    def official(self, python: str) -> Path:
        """The official wheel's libraries."""
        return self.root / "official" / python

    @property
    def official_headers(self) -> Path:
        """The official wheels' headers."""
        return self.root / "official" / "headers"

    def of_python(self, python: str) -> Path:
        """What is made for one version of Python."""
        return self.root / f"python{python}"

    def library(self, python: str) -> Path:
        return self.of_python(python) / LIBRARY

    def shown(self, path: Path) -> str:
        """A path from the root of the repository, as compilers and readers get it."""
        return str(path.relative_to(self.repository)) if path.is_relative_to(self.repository) else str(path)
