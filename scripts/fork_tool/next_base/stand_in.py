"""The device and engine that stand in for the backend on Linux, built against the base's torch for the CPU."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import write_atomically
from fork_tool.common.processes import run_shown
from fork_tool.mac_library.ninja_file import cached, NinjaFile
from fork_tool.mac_library.places import MacPlaces
from fork_tool.next_base.environment import site_packages
from fork_tool.next_base.pin import NextPin
from fork_tool.next_base.places import NextPlaces

DEVICE, ADAPTER, BINDINGS = "libstand_in.so", "libmps_accelerator_graph.so", "stand_in_bindings.so"
_COMPILERS = ("clang++-19", "clang++", "g++")
_SOURCES = "test/releases/wheels/stand_in"


def libraries(places: NextPlaces) -> dict[str, tuple[list[Path], list[str]]]:
    """By library, its sources and what it is linked with."""
    own = places.layout.root / _SOURCES
    bindings = [
        places.tree / "torch" / "csrc" / "mps" / name
        for name in ("Graphs.cpp", "ExecutableCache.cpp", "StaticMemory.cpp")
    ]
    adapter = places.tree / "aten" / "src" / "ATen" / "mps" / "MPSAcceleratorGraph.cpp"
    return {
        DEVICE: ([own / "device.cpp", own / "engine.cpp"], []),
        ADAPTER: ([adapter], ["-lstand_in"]),
        BINDINGS: ([own / "bindings.cpp", *bindings], ["-lstand_in", "-ltorch_python"]),
    }


def build_stand_in(mac: MacPlaces, places: NextPlaces, pin: NextPin, python_headers: Path) -> Path:
    """Bring the libraries up to date; returns their folder."""
    compiler = next((found for name in _COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise ForkToolError(f"There is no {_COMPILERS[0]} to build the stand-in with: run `make setup`.")
    shown = places.layout.shown
    folder = places.root / "stand_in"
    torch = site_packages(places, pin) / "torch"
    include = torch / "include"
    folders = [
        places.layout.root / _SOURCES / "include",
        places.tree / "aten" / "src",
        places.tree,
        include,
        include / "torch" / "csrc" / "api" / "include",
        python_headers,
    ]
    words = [f"-std={pin.standard}", "-O1", "-g0", "-fPIC", "-w", "-DUSE_MPS", "-DFMT_HEADER_ONLY=1"]
    words += [f"-I{shown(folder)}" for folder in folders]
    # What Debian's pyconfig.h includes.
    words += ["-idirafter", shown(python_headers.parent)]
    link = f"-shared -L{shown(folder)} -L{shown(torch / 'lib')} '-Wl,-rpath,$$ORIGIN' -Wl,-rpath,{torch / 'lib'} -Wl,--no-as-needed"
    file = NinjaFile(mac, folder)
    file.compile_rule(f"{cached(compiler)} {' '.join(words)}")
    file.rule("link", f"{compiler} {link} $in -o $out $more -ltorch_cpu -lc10", "linking $out")
    for library, (sources, more) in libraries(places).items():
        objects = [folder / "objects" / f"{source.name}.o" for source in sources]
        for source, target in zip(sources, objects):
            file.build(target, "compile", [source])
        file.build(folder / library, "link", objects, [folder / DEVICE] if more else [], more=" ".join(more))
    write_atomically(folder / "build.ninja", file.text().encode())
    environment = os.environ | {"CCACHE_BASEDIR": str(places.layout.root), "CCACHE_SLOPPINESS": "time_macros"}
    if run_shown([str(mac.ninja), "-f", shown(folder / "build.ninja")], places.layout.root, environment):
        raise ForkToolError(f"The stand-in does not compile against {pin.runnable.requirement} (see above).")
    return folder
