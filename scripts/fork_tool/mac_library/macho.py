"""Whether the library is one that a Mac of the oldest macOS loads, as far as its file shows that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from fork_tool.mac_library.link import INSTALL_NAME, RPATH
from fork_tool.mac_library.pin import MacPin
from fork_tool.mac_library.symbol_tables import KIND, UNDEFINED
from fork_tool.mac_library.tools import read_library

# A flag of the header: dyld would look in all libraries for what this one defines, and may take another's.
_WEAK_DEFINES = 0x8000


def load_command_findings(file: Path, pin: MacPin, patterns: Sequence[str], roots: Iterable[str]) -> Iterable[str]:
    """A sentence for each fault of a file that is to export `patterns`, and to name no folder of this machine (`roots`)."""
    binary = read_library(file)
    oldest = [int(part) for part in pin.macos.split(".")] + [0]
    commands = [(command.command.name, command) for command in binary.commands]
    for what, found, wanted in (
        ("processor", binary.header.cpu_type.name, "ARM64"),
        ("kind", binary.header.file_type.name, "DYLIB"),
        ("system", binary.build_version.platform.name, "MACOS"),
        ("oldest macOS", list(binary.build_version.minos), oldest),
        ("install name", [command.name for name, command in commands if name == "ID_DYLIB"], [INSTALL_NAME]),
        ("rpath", [command.path for name, command in commands if name == "RPATH"], [RPATH]),
        ("UUID", binary.has_uuid, True),
        # No Mac with Apple silicon loads a library without one.
        ("signature", binary.has_code_signature, True),
    ):
        if found != wanted:
            yield f"its {what} is {found}, not {wanted}"
    yield from _shared_symbol_findings(binary)
    names = [symbol.name for symbol in binary.exported_symbols]
    for name in names:
        if not any(fnmatchcase(name, pattern) for pattern in patterns):
            yield f"it exports {name}, which is no entry and no function of the backend"
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            yield f"it does not export {pattern}"
    content = file.read_bytes()
    for root in roots:
        at = content.find(root.encode() + b"/")
        if len(root) > 1 and at >= 0:
            shown = content[at : at + 80].split(bytes(1))[0].decode(errors="replace")
            yield f"it names a folder of the machine that built it: {shown}"


def _shared_symbol_findings(binary: Any) -> Iterable[str]:
    if int(binary.header.flags) & _WEAK_DEFINES:
        yield "it has the flag WEAK_DEFINES: dyld may put another library's symbols in place of its own"
    # Templates that torch's libraries define are looked for in all libraries; those that this one has must not be.
    defined = {symbol.name for symbol in binary.symbols if symbol.raw_type & KIND != UNDEFINED}
    looked_for = {each.symbol.name for each in binary.bindings if "WEAK" in str(getattr(each, "binding_class", ""))}
    for name in sorted(defined & looked_for):
        yield f"it defines {name}, and dyld would take another library's"
