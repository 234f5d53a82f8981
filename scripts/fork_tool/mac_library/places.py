"""Where the parts of the Mac's wheel lie, all below build/mac_library."""

from dataclasses import dataclass
from pathlib import Path

from fork_tool.paths import Place

LIBRARY = "libtorch_mps_graph.dylib"
TORCH_LIBRARIES = ("libtorch_cpu.dylib", "libtorch_python.dylib", "libc10.dylib")


@dataclass(frozen=True)
class MacPlaces:
    # Of this repository: compilers are given paths from here, so that none of the machine's gets into the library.
    repository: Path

    root = Place("build/mac_library", of="repository")
    tools = Place("tools")
    zig = Place("tools/ziglang/zig")
    compiler = Place("tools/mac-clang++")
    ninja = Place("tools/bin/ninja")
    # Apple's headers, as far as there are any.
    include = Place("include")
    # Debian's packages, unpacked.
    packages = Place("packages")
    generated = Place("generated")
    stubs = Place("stubs")
    ninja_file = Place("build.ninja")
    dist = Place("dist", of="repository")
    # What this repository has for the library.
    own = Place("scripts/mac_wheel", of="repository")
    official_headers = Place("official/headers")

    @property
    def compiler_environment(self) -> dict[str, str]:
        """Where the compiler keeps what it makes on its way."""
        kept = str(self.root / "zig")
        return {"ZIG_GLOBAL_CACHE_DIR": kept, "ZIG_LOCAL_CACHE_DIR": kept}

    def official(self, python: str) -> Path:
        return self.root / "official" / python

    def of_python(self, python: str) -> Path:
        return self.root / f"python{python}"

    def library(self, python: str) -> Path:
        return self.of_python(python) / LIBRARY

    def shown(self, path: Path) -> str:
        """A path from the root of the repository, as compilers and readers get it."""
        return str(path.relative_to(self.repository)) if path.is_relative_to(self.repository) else str(path)
