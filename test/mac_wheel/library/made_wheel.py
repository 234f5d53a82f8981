"""What the tests look at, and small libraries in which a fault is planted."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fork_tool.mac_library.libraries import AppleLibrary
from fork_tool.mac_library.link import link, link_words, linker_of
from fork_tool.mac_library.make import Bench, exported, library_findings
from fork_tool.mac_library.symbols import entries

# What the library exports, so that a small one has no fault but the planted one.
ENTRIES = """
extern "C" __attribute__((visibility("default"))) const char* torch_mps_graph_load(int) { return nullptr; }
extern "C" __attribute__((visibility("default"))) int aoti_torch_mps_example() { return 0; }
"""


@dataclass(frozen=True)
class Made:
    """What `make wheel` made for this Python."""

    bench: Bench
    library: Path
    # The official wheel, and its folder `torch`.
    official: Path
    torch: Path
    libraries: tuple[AppleLibrary, ...]

    def findings(self, library: Path) -> list[str]:
        """What the tool says of a library: of the real one, or of a small one that exports only entries."""
        names = exported(self.bench) if library == self.library else entries(self.bench.places)
        return library_findings(self.bench, library, names)


class SmallLibraries:
    """Makes libraries as the real one is made, out of a few lines."""

    def __init__(self, made: Made, folder: Path):
        self.made, self.folder = made, folder
        self._count = 0

    def compile(self, source: str, *words: str) -> Path:
        """The object of C++ source."""
        self._count += 1
        path = self.folder / f"small{self._count}.cpp"
        path.write_text(source)
        places, pin = self.made.bench.places, self.made.bench.pin
        output = path.with_suffix(".o")
        command = [str(places.zig), "c++", "-target", f"aarch64-macos.{pin.macos}", "-std=c++17", "-O2", "-g0", "-w"]
        command += ["-D_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS=1", "-fvisibility=hidden", *words]
        environment = os.environ | places.compiler_environment
        subprocess.run([*command, "-c", str(path), "-o", str(output)], check=True, env=environment)
        return output

    def link(self, *objects: Path, change: Callable[[list[str]], list[str]] = list) -> Path:
        """The library of these objects; `change` plants a fault in the linker's words."""
        bench = self.made.bench
        output = self.folder / f"python{bench.python}" / f"small{self._count}.dylib"
        words = link_words(
            bench.places,
            bench.pin,
            linker_of(bench.machine),
            objects,
            output,
            self.made.torch,
            self.made.libraries,
            [],
            entries(bench.places),
        )
        link(bench.places, change(words), output)
        return output
