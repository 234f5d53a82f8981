"""Which library each name comes from that ours does not define."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fork_tool.mac_library.libraries import AppleLibrary, CXX, SYSTEM
from fork_tool.mac_library.places import MacPlaces, TORCH_LIBRARIES
from fork_tool.mac_library.symbol_types import external_symbols
from fork_tool.mac_library.tools import read_library

TORCH, APPLE, PYTHON, NONE = "torch", "Apple", "Python", "none"
OWNERS = (TORCH, APPLE, SYSTEM, CXX, PYTHON, NONE)
# Of a symbol's description.
_WEAK_REFERENCE = 0x40
_API = re.compile(r"\bPyAPI_(?:FUNC|DATA)\s*\(.*?\)\s*(?:[\w\s]*?\b)?\*?\s*(\w+)\s*(?:\(|\[|;)", re.DOTALL)
_CALLS_OF_PYTHON = re.compile(r"__?Py")


@dataclass(frozen=True)
class Owners:
    """Where a name may come from."""

    torch: frozenset[str]
    apple: dict[str, frozenset[str]]
    # What libSystem's own list has; a name must be there and in the list of this repository.
    system: frozenset[str]
    python: frozenset[str]

    def of(self, name: str) -> str:
        """The owner of a name, `none` if there is none."""
        if name in self.torch:
            return TORCH
        for library, names in self.apple.items():
            if name in names:
                if library == SYSTEM and name not in self.system:
                    return NONE
                return library if library in (SYSTEM, CXX) else APPLE
        return PYTHON if name in self.python else NONE


@dataclass(frozen=True)
class Import:
    """A name that a library does not define, and the library that it is bound to."""

    name: str
    # The install name, or empty: looked for in all that is loaded.
    library: str
    weak: bool


def imports(lief: Any, library: Path) -> list[Import]:
    """All names that a linked library takes from others."""
    return imports_of(read_library(lief, library))


def imports_of(binary: Any) -> list[Import]:
    """The same of a library that was read."""
    libraries = [command.name for command in binary.libraries if command.command.name != "ID_DYLIB"]
    found = []
    for symbol in external_symbols(binary, defined=False):
        ordinal = symbol.library_ordinal
        owner = libraries[ordinal - 1] if 1 <= ordinal <= len(libraries) else ""
        found.append(Import(symbol.name, owner, bool(symbol.description & _WEAK_REFERENCE)))
    return sorted(found, key=lambda each: each.name)


def undefined_in(lief: Any, file: Path) -> set[str]:
    """The names that an object uses and does not define."""
    return {symbol.name for symbol in external_symbols(read_library(lief, file), defined=False)}


def exports(lief: Any, library: Path) -> frozenset[str]:
    """The names that a library gives to others."""
    binary = read_library(lief, library)
    return frozenset(symbol.name for symbol in binary.exported_symbols)


def gather_owners(
    lief: Any, places: MacPlaces, libraries: Iterable[AppleLibrary], torch: Path, python_headers: Path
) -> Owners:
    """Read all lists of names."""
    given = frozenset[str]().union(*(exports(lief, torch / "lib" / name) for name in TORCH_LIBRARIES))
    return Owners(
        given,
        {library.name: library.names for library in libraries},
        system_names(places.zig.parent / "lib" / "libc" / "darwin" / "libSystem.tbd"),
        frozenset(python_names(python_headers)),
    )


@cache
def system_names(stub: Path) -> frozenset[str]:
    """What Apple's stub of libSystem has for arm64."""
    names: set[str] = set()
    for block in re.finditer(
        r"- targets:\s*\[(?P<targets>.*?)\](?P<rest>.*?)(?=- targets:|^---|^\.\.\.|\Z)",
        stub.read_text(),
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
                yield f"_{match[1]}"


def looks_like_python(name: str) -> bool:
    """Whether a name is one of Python's by its form; the list decides whether it exists."""
    return bool(_CALLS_OF_PYTHON.match(name))


def count_owners(owners: Owners, found: Iterable[Import]) -> dict[str, int]:
    """How many names come from whom, for the report."""
    counts = dict.fromkeys(OWNERS, 0)
    for each in found:
        counts[owners.of(each.name)] += 1
    return counts


def findings(owners: Owners, found: Iterable[Import], paths: dict[str, str]) -> list[str]:
    """A sentence for each name that no library has, or that is bound to another library than the one that has it.

    `paths` gives the install name of each of macOS's libraries.
    """
    problems = []
    for each in found:
        owner = owners.of(each.name)
        if owner == NONE:
            problems.append(f"{each.name} is undefined, and {_who_lacks(owners, each)}")
        elif owner == TORCH and not each.library.startswith("@rpath/lib"):
            problems.append(f"{each.name} is torch's and bound to {each.library or 'whatever has it'}")
        elif owner == PYTHON and each.library:
            problems.append(f"{each.name} is Python's and bound to {each.library}")
        elif owner in (APPLE, SYSTEM, CXX):
            right = {paths[name] for name, names in owners.apple.items() if each.name in names}
            if each.library not in right:
                problems.append(
                    f"{each.name} is in {', '.join(sorted(right))} and bound to {each.library or 'whatever has it'}"
                )
    return problems


def _who_lacks(owners: Owners, each: Import) -> str:
    if each.name.startswith(("__ZNSt3__1", "__ZNKSt3__1", "__ZTVNSt3__1", "__ZTINSt3__1", "__ZSt")):
        return "the libc++ of the oldest macOS is not known to have it (scripts/mac_wheel/stubs/libraries.toml)"
    if each.name in owners.apple[SYSTEM]:
        return "libSystem's stub does not have it"
    if looks_like_python(each.name):
        return "Python's headers do not declare it"
    return "neither the official wheel's libraries nor the lists of macOS's have it"
