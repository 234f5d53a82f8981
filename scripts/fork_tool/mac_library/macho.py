"""Whether the library is one that a Mac of the oldest macOS loads, as far as its file shows that."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from fork_tool.mac_library.libraries import AppleLibrary
from fork_tool.mac_library.link import INSTALL_NAME, RPATH
from fork_tool.mac_library.pin import MacPin
from fork_tool.mac_library.places import MacPlaces
from fork_tool.mac_library.symbol_tables import KIND, UNDEFINED
from fork_tool.mac_library.tools import read_library

_PAGE = 0x4000
# A flag of the header: dyld would look in all libraries for what this one defines, and may take another's.
_WEAK_DEFINES = 0x8000
# Of a code signature; all its numbers are big-endian.
_SIGNATURE, _DIRECTORY, _ADHOC = 0xFADE0CC0, 0xFADE0C02, 0x2
_SHA256 = 2


def load_command_findings(
    lief: Any, file: Path, pin: MacPin, patterns: Sequence[str], libraries: Iterable[AppleLibrary], places: MacPlaces
) -> list[str]:
    """A sentence for each thing that is wrong with the file's header and load commands."""
    binary = read_library(lief, file)
    return [
        *_kind_findings(binary, pin),
        *library_command_findings(binary, libraries),
        *_export_findings(binary, patterns),
        *segment_findings(binary, file.stat().st_size),
        *path_findings(file.read_bytes(), [str(places.repository), str(Path.home())]),
    ]


def _kind_findings(binary: Any, pin: MacPin) -> Iterable[str]:
    header = binary.header
    if (header.cpu_type.name, header.file_type.name) != ("ARM64", "DYLIB"):
        yield f"it is a {header.file_type.name} for {header.cpu_type.name}, not a library for arm64"
    oldest = [int(part) for part in pin.macos.split(".")] + [0]
    if not binary.has_build_version:
        yield "it does not say which macOS it is for"
    elif binary.build_version.platform.name != "MACOS" or list(binary.build_version.minos) != oldest:
        found = ".".join(map(str, binary.build_version.minos))
        yield f"it is for {binary.build_version.platform.name} {found}, not for macOS {pin.macos}"
    if not binary.has_uuid:
        yield "it has no UUID"
    if int(header.flags) & _WEAK_DEFINES:
        yield "it has the flag WEAK_DEFINES: dyld may put another library's symbols in place of its own"
    # Templates that torch's libraries define are looked for in all libraries; those that this one has must not be.
    defined = {symbol.name for symbol in binary.symbols if symbol.raw_type & KIND != UNDEFINED}
    looked_for = {each.symbol.name for each in binary.bindings if "WEAK" in str(getattr(each, "binding_class", ""))}
    for name in sorted(defined & looked_for):
        yield f"it defines {name}, and dyld would take another library's"


def library_command_findings(binary: Any, libraries: Iterable[AppleLibrary]) -> Iterable[str]:
    """What is wrong with the library's own name, those that it wants, and where they are looked for."""
    known = {library.path: library for library in libraries}
    seen = False
    for command in binary.libraries:
        if command.command.name == "ID_DYLIB":
            seen = True
            if command.name != INSTALL_NAME:
                yield f"its install name is {command.name}, not {INSTALL_NAME}"
        elif command.name in known:
            if ("WEAK" in command.command.name) != known[command.name].weak:
                yield f"{command.name} is linked {'weakly' if 'WEAK' in command.command.name else 'strongly'}, unlike in the official wheel"
        elif not command.name.startswith("@rpath/lib"):
            yield f"it wants {command.name}, which is no library of the wheel or of scripts/mac_wheel/stubs/libraries.toml"
    if not seen:
        yield "it has no install name"
    rpaths = [command.path for command in binary.commands if command.command.name == "RPATH"]
    if rpaths != [RPATH]:
        yield f"its rpaths are {', '.join(rpaths) or 'none'}, not {RPATH}"


def _export_findings(binary: Any, patterns: Sequence[str]) -> Iterable[str]:
    names = [symbol.name for symbol in binary.exported_symbols]
    for name in names:
        if not any(fnmatchcase(name, pattern) for pattern in patterns):
            yield f"it exports {name}, which is no entry and no function of the backend"
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            yield f"it does not export {pattern}"


def segment_findings(binary: Any, size: int) -> Iterable[str]:
    """What is wrong with the parts that are mapped, of a file of `size` bytes."""
    end = 0
    for segment in binary.segments:
        where = f"the segment {segment.name}"
        if segment.virtual_address % _PAGE or segment.file_offset % _PAGE:
            yield f"{where} does not begin at a page of {_PAGE} bytes"
        # The last one ends where the file does.
        if segment.virtual_size % _PAGE and segment.name != "__LINKEDIT":
            yield f"{where} does not end at a page in memory"
        if segment.virtual_address < end:
            yield f"{where} overlaps the one before"
        if segment.file_offset + segment.file_size > size:
            yield f"{where} ends behind the end of the file"
        if segment.name in ("__DATA", "__DATA_CONST") and int(segment.init_protection) & 4:
            yield f"{where} can be executed"
        end = segment.virtual_address + segment.virtual_size


def path_findings(content: bytes, roots: Iterable[str]) -> Iterable[str]:
    """The folders of this machine that are named in the file."""
    for root in roots:
        if len(root) > 1 and root.encode() + b"/" in content:
            at = content.index(root.encode() + b"/")
            yield f"it names a folder of the machine that built it: {content[at : at + 80].split(bytes(1))[0].decode(errors='replace')}"


def signature_findings(lief: Any, file: Path) -> list[str]:
    """What is wrong with the signature that any library for arm64 must have; every page's hash is computed again."""
    binary = read_library(lief, file)
    if not binary.has_code_signature:
        return ["it is not signed: no Mac with Apple silicon loads it"]
    content = file.read_bytes()
    command = binary.code_signature
    blob = content[command.data_offset : command.data_offset + command.data_size]
    try:
        return list(_signature_problems(content, blob, command.data_offset))
    except struct.error:
        return ["its signature is cut off"]


def _signature_problems(content: bytes, blob: bytes, at: int) -> Iterable[str]:
    magic, _length, count = struct.unpack_from(">III", blob)
    if magic != _SIGNATURE:
        yield "its signature is none of Apple's form"
        return
    for index in range(count):
        _kind, offset = struct.unpack_from(">II", blob, 12 + 8 * index)
        if struct.unpack_from(">I", blob, offset)[0] == _DIRECTORY:
            yield from _directory_problems(content, blob[offset:], at)
            return
    yield "its signature has no list of hashes"


def _directory_problems(content: bytes, directory: bytes, at: int) -> Iterable[str]:
    _magic, _length, _version, flags, hashes, _identity, _special, pages, limit = struct.unpack_from(">9I", directory)
    size, kind, _platform, page_bits = struct.unpack_from(">4B", directory, 36)
    if not flags & _ADHOC:
        yield "its signature is not ad hoc: it would have to name who signed"
    if kind != _SHA256 or size != 32:
        yield "its signature has other hashes than SHA-256"
        return
    if limit != at:
        yield f"its signature is for {limit} bytes, and {at} come before it"
    page = 1 << page_bits
    if pages != -(-limit // page):
        yield f"its signature has hashes of {pages} pages, and there are {-(-limit // page)}"
        return
    for number in range(pages):
        begin = number * page
        wanted = directory[hashes + number * size : hashes + (number + 1) * size]
        if hashlib.sha256(content[begin : min(begin + page, limit)]).digest() != wanted:
            yield f"the page at byte {begin} is not what was signed"
