"""On Linux: an environment with the release's torch, the series' Python files over it, and a device that stands in for the backend."""

import csv
import os
import shutil
import sys
from pathlib import Path

from fork_tool.common.console import say
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import is_filled, mark_filled, need_space, remove, write_atomically, write_if_changed
from fork_tool.common.processes import run_shown
from fork_tool.mac_library.archive import digest_of
from fork_tool.mac_library.ninja_file import cached, NinjaFile
from fork_tool.mac_library.places import MacPlaces
from fork_tool.machine.machine import Machine
from fork_tool.machine.package_index import fetch_pinned_wheel, pip_command
from fork_tool.releases.release import ReleasePin, ReleasePlaces


def why_not_here(machine: Machine, pin: ReleasePin) -> str:
    """Why the release's Python can't run on this machine, or empty."""
    if machine.system != "Linux" or machine.processor != "x86_64":
        return f"the wheel that it runs on is for Linux on x86-64, and this is {machine.system} on {machine.processor}"
    if interpreter(pin) is None:
        return f"the wheel that it runs on is for Python {pin.runnable.python}, which is not installed"
    return ""


def interpreter(pin: ReleasePin) -> str | None:
    """A Python of the wheel's version."""
    if f"{sys.version_info[0]}.{sys.version_info[1]}" == pin.runnable.python:
        return sys.executable
    return shutil.which(f"python{pin.runnable.python}")


def site_packages(places: ReleasePlaces, pin: ReleasePin) -> Path:
    return places.environment / "lib" / f"python{pin.runnable.python}" / "site-packages"


def install_environment(places: ReleasePlaces, pin: ReleasePin, pin_file: str) -> bool:
    """Bring the environment to its pins; false when it was there."""
    # A file that was laid over torch and is gone from the series leaves with the environment.
    wanted = (places.requirements.read_bytes(), pin.runnable.sha256, sys.version, python_names(places))
    if is_filled(places.environment, wanted) and places.python.exists():
        return False
    file = fetch_pinned_wheel(pin.runnable, places.layout.cache, places.layout.root, pin_file)
    need_space(places.root, 1_500_000_000, "The environment of the release")
    remove(places.environment)
    say(f"installing {pin.runnable.requirement} in {places.layout.shown(places.environment)}")
    python = interpreter(pin)
    assert python
    steps = (
        [python, "-m", "venv", str(places.environment)],
        pip_command(places.python, ["--requirement", str(places.requirements)]),
        pip_command(places.python, [str(file)]),
    )
    for step in steps:
        if run_shown(step, places.layout.root):
            raise ForkToolError(
                f"The environment of {pin.tag} could not be made (see above): check the network and the package index, then run this again."
            )
    mark_filled(places.environment, wanted)
    return True


def python_names(places: ReleasePlaces) -> list[str]:
    return sorted(str(path.relative_to(places.tree)) for path in (places.tree / "torch").rglob("*.py"))


def lay_python(places: ReleasePlaces, pin: ReleasePin) -> None:
    """Put the series' Python files into the environment's torch.

    They were made of the Mac's wheel, so its files must be those of the wheel for Linux.
    """
    packages = site_packages(places, pin)
    (record,) = packages.glob("torch-*.dist-info/RECORD")
    with record.open(newline="", encoding="utf-8") as stream:
        recorded = {row[0]: row[1] for row in csv.reader(stream)}
    for name in python_names(places):
        original = places.wheel / name
        if original.is_file() and recorded.get(name) != digest_of(original.read_bytes()):
            raise ForkToolError(
                f"{name} of {pin.wheel.name} is not that of {pin.runnable.name}: the series' Python can't run on the latter; "
                "pin wheels of one release."
            )
        write_if_changed(packages / name, (places.tree / name).read_bytes())


DEVICE, ADAPTER, BINDINGS = "libstand_in.so", "libmps_accelerator_graph.so", "stand_in_bindings.so"
_COMPILERS = ("clang++-19", "clang++", "g++")
_SOURCES = "test/releases/wheels/stand_in"


def libraries(places: ReleasePlaces) -> dict[str, tuple[list[Path], list[str]]]:
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


def build_stand_in(mac: MacPlaces, places: ReleasePlaces, pin: ReleasePin, python_headers: Path) -> Path:
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
