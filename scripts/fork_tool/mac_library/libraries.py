"""The libraries of macOS that are linked against, and text stubs (.tbd, version 4) of them for the linker.

The linker sees the names that the official wheel's libraries import, and those that `scripts/mac_wheel/stubs/libraries.toml`
adds with a reason. No other name is linked.
"""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import write_if_changed
from fork_tool.mac_library.places import MacPlaces, TORCH_LIBRARIES
from fork_tool.mac_library.symbols import imports_of
from fork_tool.mac_library.tools import read_library

SYSTEM = "libSystem"
CXX = "libc++"
_CLASS = "_OBJC_CLASS_$_"
_METACLASS = "_OBJC_METACLASS_$_"


@dataclass(frozen=True)
class AppleLibrary:
    """A library of macOS and the names that may be taken from it."""

    # As dyld looks for it.
    path: str
    current: str
    compatible: str
    # Loaded if it exists, as in the official wheel.
    weak: bool
    official: frozenset[str]
    further: frozenset[str]

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name.partition(".")[0]

    @property
    def names(self) -> frozenset[str]:
        return self.official | self.further


def further_names(places: MacPlaces) -> dict[str, frozenset[str]]:
    """The names that the file adds, by the library's path."""
    path = places.own / "stubs" / "libraries.toml"
    try:
        tables = tomllib.loads(path.read_text("utf-8"))["library"]
        return {
            table["path"]: frozenset(name for group in table.get("further", []) for name in group["names"])
            for table in tables
        }
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError) as problem:
        shown = places.shown(path)
        raise ForkToolError(
            f"{shown} can't be read ({problem}): bring it back with `git checkout -- {shown}`."
        ) from None


@cache
def load_libraries(places: MacPlaces, torch: Path) -> tuple[AppleLibrary, ...]:
    """All libraries of the file, as the libraries in the official wheel's folder `torch` link against them."""
    binaries = [read_library(torch / "lib" / name) for name in TORCH_LIBRARIES]
    commands = {command.name: command for command in binaries[0].libraries}
    taken = [each for binary in binaries for each in imports_of(binary)]
    return tuple(
        AppleLibrary(
            path,
            ".".join(map(str, commands[path].current_version)),
            ".".join(map(str, commands[path].compatibility_version)),
            "WEAK" in commands[path].command.name,
            frozenset(each.name for each in taken if each.library == path),
            further,
        )
        for path, further in further_names(places).items()
    )


def stub_text(library: AppleLibrary) -> str:
    classes = {
        name.removeprefix(prefix)
        for name in library.names
        for prefix in (_CLASS, _METACLASS)
        if name.startswith(prefix)
    }
    symbols = {name for name in library.names if not name.startswith((_CLASS, _METACLASS))}
    lines = [
        "--- !tapi-tbd",
        "tbd-version: 4",
        "targets: [ arm64-macos ]",
        f"install-name: '{library.path}'",
        f"current-version: {library.current}",
        f"compatibility-version: {library.compatible}",
        "exports:",
        "  - targets: [ arm64-macos ]",
    ]
    for kind, names in (("symbols", symbols), ("objc-classes", classes)):
        if names:
            lines.append(f"    {kind}: [ {', '.join(map(repr, sorted(names)))} ]")
    return "\n".join((*lines, "...", ""))


def write_stubs(places: MacPlaces, libraries: Iterable[AppleLibrary]) -> dict[str, Path]:
    found = {}
    for library in libraries:
        path = places.stubs / f"{library.name}.tbd"
        write_if_changed(path, stub_text(library).encode())
        found[library.name] = path
    return found
