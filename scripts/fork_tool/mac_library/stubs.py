"""Text stubs (.tbd, version 4) of macOS's libraries, for the linker."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fork_tool.common.files import write_atomically
from fork_tool.mac_library.libraries import AppleLibrary
from fork_tool.mac_library.places import MacPlaces

_CLASS = "_OBJC_CLASS_$_"
_METACLASS = "_OBJC_METACLASS_$_"


def stub_text(library: AppleLibrary) -> str:
    """The stub of one library: nothing is in it but the names of its lists."""
    classes = sorted(
        {
            name.removeprefix(prefix)
            for name in library.names
            for prefix in (_CLASS, _METACLASS)
            if name.startswith(prefix)
        }
    )
    symbols = sorted(name for name in library.names if not name.startswith((_CLASS, _METACLASS)))
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
    if symbols:
        lines.append(f"    symbols: [ {_quoted(symbols)} ]")
    if classes:
        lines.append(f"    objc-classes: [ {_quoted(classes)} ]")
    return "\n".join((*lines, "...", ""))


def write_stubs(places: MacPlaces, libraries: Iterable[AppleLibrary]) -> dict[str, Path]:
    """Write a stub for each library; returns them by the library's name."""
    found = {}
    for library in libraries:
        path = places.stubs / f"{library.name}.tbd"
        text = stub_text(library)
        if not path.is_file() or path.read_text() != text:
            write_atomically(path, text.encode())
        found[library.name] = path
    return found


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
