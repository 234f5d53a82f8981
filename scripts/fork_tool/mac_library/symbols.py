"""The names that Mach-O files give and take, and which library each comes from that ours does not define."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from fork_tool.mac_library.places import MacPlaces
from fork_tool.mac_library.tools import read_library

# Masks of a symbol's type: its kind, seen by other files, seen by this library alone, of a debugger.
KIND, EXTERNAL, PRIVATE, DEBUG = 0x0E, 0x01, 0x10, 0xE0
# Kinds: undefined, and defined in a section.
UNDEFINED, SECTION = 0x00, 0x0E
# Masks of a symbol's description: it may be missing, and another library's may take its place.
_WEAK_REFERENCE, _WEAK = 0x40, 0x80
# The namespaces at::mps and at::native::mps.
BACKEND = ("__ZN2at3mps", "__ZNK2at3mps", "__ZN2at6native3mps", "__ZNK2at6native3mps")


def external_symbols(binary: Any, *, defined: bool) -> Iterator[Any]:
    """The symbols by which a file is bound to others: those that it defines, or those that it takes."""
    # One by one: a symbol lives no longer than the file that it is of, which is kept until the last one was given.
    for symbol in binary.symbols:
        seen = symbol.raw_type & EXTERNAL and not symbol.raw_type & DEBUG
        if seen and (symbol.raw_type & KIND != UNDEFINED) == defined:
            yield symbol


@dataclass(frozen=True)
class Import:
    """A name that a library does not define, and the library that it is bound to."""

    name: str
    # The install name, or empty: looked for in all that is loaded.
    library: str
    weak: bool


def imports(library: Path) -> list[Import]:
    """All names that a linked library takes from others."""
    return imports_of(read_library(library))


def imports_of(binary: Any) -> list[Import]:
    libraries = [command.name for command in binary.libraries if command.command.name != "ID_DYLIB"]
    found = []
    for symbol in external_symbols(binary, defined=False):
        ordinal = symbol.library_ordinal
        owner = libraries[ordinal - 1] if 1 <= ordinal <= len(libraries) else ""
        found.append(Import(symbol.name, owner, bool(symbol.description & _WEAK_REFERENCE)))
    return sorted(found, key=lambda each: each.name)


def undefined_in(file: Path) -> set[str]:
    return {symbol.name for symbol in external_symbols(read_library(file), defined=False)}


def backend_functions(objects: Iterable[Path]) -> list[str]:
    """The functions of the backend that its headers declare for others (`TORCH_API`).

    Data stays inside, and so do functions of which any library may have a copy, since dyld takes one for all.
    """
    found: set[str] = set()
    for path in objects:
        binary = read_library(path)
        code = {number for number, section in enumerate(binary.sections, 1) if section.segment_name == "__TEXT"}
        for symbol in binary.symbols:
            seen = symbol.raw_type & EXTERNAL and not symbol.raw_type & PRIVATE
            defined = symbol.raw_type & KIND == SECTION and symbol.numberof_sections in code
            if seen and defined and not symbol.description & _WEAK and symbol.name.startswith(BACKEND):
                found.add(symbol.name)
    return sorted(found)


PYTHON, NONE = "Python", "none"
_SYSTEM = "libSystem.B.dylib"
_API = re.compile(
    r"\bPyAPI_(?:FUNC|DATA)\s*\(.*?\)\s*(?:[\w\s]*?\b)?\*?\s*(\w+(?:\s*,\s*\w+)*)\s*(?:\(|\[|;)", re.DOTALL
)


def owner_of(each: Import, python: frozenset[str]) -> str:
    """The file name of the library that the linker found a name in, `Python`, or `none`."""
    if each.library:
        return PurePosixPath(each.library).name
    return PYTHON if each.name in python else NONE


def owner_findings(found: Iterable[Import], python: frozenset[str], system: frozenset[str]) -> Iterator[str]:
    """A sentence for each name that is left to whatever has it, or that Apple's own list of libSystem lacks."""
    for each in found:
        owner = owner_of(each, python)
        if owner == NONE:
            yield f"{each.name} is bound to no library, and Python's headers do not declare it"
        elif owner == _SYSTEM and each.name not in system:
            yield f"{each.name} is not in Apple's stub of libSystem"


@cache
def system_names(places: MacPlaces) -> frozenset[str]:
    """What Apple's stub of libSystem has for arm64."""
    names: set[str] = set()
    for block in re.finditer(
        r"- targets:\s*\[(?P<targets>.*?)\](?P<rest>.*?)(?=- targets:|^---|^\.\.\.|\Z)",
        (places.zig.parent / "lib" / "libc" / "darwin" / "libSystem.tbd").read_text(),
        re.DOTALL | re.MULTILINE,
    ):
        if "arm64" in block["targets"]:
            for group in re.finditer(r"(?:weak-|thread-local-)?symbols:\s*\[(.*?)\]", block["rest"], re.DOTALL):
                names.update(word.strip(" '\n") for word in group[1].split(","))
    return frozenset(names)


def python_names(headers: Path) -> Iterator[str]:
    """What Python's headers declare as its C API."""
    for folder, _, names in os.walk(headers, followlinks=True):
        for name in sorted(names):
            for match in _API.finditer((Path(folder) / name).read_text(errors="replace")):
                yield from (f"_{each.strip()}" for each in match[1].split(","))


def entries(places: MacPlaces) -> list[str]:
    """The names, with `*`, that are exported for the loader and for AOTInductor."""
    text = (places.own / "stubs" / "exported.txt").read_text()
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
