"""The headers that are compiled against besides the checkout's and the official wheel's."""

from __future__ import annotations

import shutil
import sys
import sysconfig
from pathlib import Path

from fork_tool.base.download import fetch_file, Unreachable
from fork_tool.base.mirrors import find_mirrors
from fork_tool.base.pin import Download
from fork_tool.base.tarball import unpack_package
from fork_tool.common.console import note
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import fill_once, remove, write_if_changed
from fork_tool.common.processes import output_of
from fork_tool.mac_library.pin import MacPin
from fork_tool.mac_library.places import MacPlaces
from fork_tool.mac_library.sources import FRAMEWORK_HEADERS, OBJECT_HEADER

_CONFIG = "pyconfig.h"


def lay_headers(places: MacPlaces, pin: MacPin, cache: Path) -> None:
    """Bring Apple's headers, as far as there are any, and fmt's into one folder of links."""
    simulated = places.repository / "test" / "simulator" / "include"
    wanted = {name: simulated / name for name in (*FRAMEWORK_HEADERS, OBJECT_HEADER)}
    wanted |= {f"os/{header.name}": header for header in sorted((places.own / "include" / "os").glob("*.h"))}
    wanted["fmt"] = unpack_headers(pin.fmt, cache, places.packages / "fmt") / "fmt"
    _link(places, places.include, wanted)


def _link(places: MacPlaces, folder: Path, wanted: dict[str, Path]) -> None:
    """Fill a folder with links of these names, and with nothing else."""
    for name, target in wanted.items():
        if not target.exists():
            raise ForkToolError(f"{places.shown(target)} is missing: bring it back with `git checkout`.")
        link = folder / name
        if link.is_symlink() and link.readlink() == target:
            continue
        link.parent.mkdir(parents=True, exist_ok=True)
        remove(link)
        link.symlink_to(target)
    known = {folder / name for name in wanted}
    for path in folder.rglob("*"):
        if path.is_symlink() and path not in known:
            path.unlink()


def python_headers(places: MacPlaces, pin: MacPin, python: str, cache: Path) -> Path:
    """A folder with this version's headers: Debian's as pinned, or those of a Python on this machine."""
    found = found_headers(places, pin, python, cache)
    wanted = {path.name: path for path in sorted(found.iterdir()) if path.name != _CONFIG}
    # They include it from their own folder, where it is for another system.
    wanted[_CONFIG] = places.own / "include" / "python" / _CONFIG
    folder = places.of_python(python) / "headers"
    _link(places, folder, wanted)
    return folder


def found_headers(places: MacPlaces, pin: MacPin, python: str, cache: Path) -> Path:
    """Where Debian's package or a Python on this machine has this version's headers."""
    package = pin.headers.get(python)
    if package is not None:
        try:
            return unpack_headers(package, cache, places.packages / f"python{python}") / f"python{python}"
        except Unreachable as problem:
            own = _own_headers(python)
            if own is None:
                raise
            note(f"The headers of this machine's Python {python} are used: {problem}")
            return own
    own = _own_headers(python)
    if own is None:
        raise ForkToolError(
            f"There is no Python.h for Python {python}: install python{python} with its headers (python{python}-dev), or "
            f"give a version that needs none here, like `make wheel PYTHON={next(iter(pin.headers))}`."
        )
    return own


def _own_headers(python: str) -> Path | None:
    if python == f"{sys.version_info[0]}.{sys.version_info[1]}":
        return _with_header(sysconfig.get_path("include"))
    program = shutil.which(f"python{python}")
    if program is None:
        return None
    words = [program, "-c", "import sysconfig; print(sysconfig.get_path('include'))"]
    return _with_header(output_of(words) or "")


def _with_header(directory: str) -> Path | None:
    return Path(directory) if (Path(directory) / "Python.h").is_file() else None


def write_official_header(places: MacPlaces, python: str, uuid: bytes) -> None:
    """What the library must know of the official one that it was linked with."""
    bytes_of = ", ".join(f"0x{byte:02x}" for byte in uuid)
    text = (
        "// Made by `make wheel`.\n#pragma once\n\n#include <cstdint>\n\n"
        "// The UUID of the libtorch_cpu.dylib that this library was linked with.\n"
        f"constexpr uint8_t kOfficialTorchCpuUuid[16] = {{{bytes_of}}};\n"
    )
    path = places.of_python(python) / "include" / "mac_library_generated" / "official_library.h"
    write_if_changed(path, text.encode())


def unpack_headers(package: Download, cache: Path, into: Path) -> Path:
    """Download a package and unpack its `usr/include`; returns that folder."""

    def fill(new: Path) -> None:
        unpack_package(fetch_file(package, find_mirrors(), cache), new, "./usr/include")

    fill_once(into, package, fill)
    return into / "usr" / "include"
