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
from fork_tool.mac_library.symbol_tables import exports, Import

TORCH, APPLE, PYTHON, NONE = "torch", "Apple", "Python", "none"
OWNERS = (TORCH, APPLE, SYSTEM, CXX, PYTHON, NONE)
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


def entries(places: MacPlaces) -> list[str]:
    """The names, with `*`, that are exported for the loader and for AOTInductor."""
    text = (places.own / "stubs" / "exported.txt").read_text()
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
