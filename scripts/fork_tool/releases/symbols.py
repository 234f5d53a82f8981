"""Who has each name that the overlay's objects take from others."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fork_tool.mac_library.symbols import external_symbols
from fork_tool.mac_library.tools import read_library
from fork_tool.releases.tree import ReleasePatch
from fork_tool.releases.wheel import Facts

# How a compiler writes a function's own name below its namespaces.
_FUNCTION = re.compile(r"([\w~]+(?:::[\w~]+)*)\s*\(")


@dataclass(frozen=True)
class Missing:
    """A name that no library of the wheel has."""

    name: str
    # As C++ writes it.
    shown: str
    # The sources that use it.
    users: tuple[str, ...]
    # The patch whose hunks define it, or empty: then none does.
    patch: str


@dataclass(frozen=True)
class Names:
    """What objects take from others, by who has it."""

    torch: int
    system: int
    missing: tuple[Missing, ...]

    @property
    def undefined(self) -> list[Missing]:
        return [each for each in self.missing if not each.patch]


@dataclass(frozen=True)
class ObjectNames:
    source: str
    taken: dict[str, str]
    defined: frozenset[str]


def names_of_object(source: str, file: Path) -> ObjectNames:
    """Read an object; the names that it takes come with their form in C++."""
    binary = read_library(file)
    taken = {symbol.name: demangle(symbol.name) for symbol in external_symbols(binary, defined=False)}
    return ObjectNames(source, taken, frozenset(symbol.name for symbol in external_symbols(binary, defined=True)))


def sort_names(
    objects: Iterable[ObjectNames],
    facts: Facts,
    patches: Iterable[ReleasePatch],
    others: Iterable[str],
) -> Names:
    """Find the owner of each name; `others` are those of macOS and Python that the wheel's libraries do not take."""
    found = list(objects)
    defined = frozenset[str]().union(*(each.defined for each in found))
    users: dict[str, list[str]] = {}
    shown: dict[str, str] = {}
    for each in found:
        for name, form in each.taken.items():
            if name not in defined:
                users.setdefault(name, []).append(each.source)
                shown[name] = form
    exports = set(facts.exports)
    system = {name for names in facts.imports.values() for name in names}
    system |= {*others, "___dso_handle"}
    hunks = added_lines(patches)
    missing = [
        Missing(name, shown[name], tuple(sorted(users[name])), patch_that_defines(shown[name], hunks))
        for name in sorted(users)
        if name not in exports and name not in system
    ]
    return Names(
        sum(name in exports for name in users), sum(name in system - exports for name in users), tuple(missing)
    )


def added_lines(patches: Iterable[ReleasePatch]) -> dict[str, str]:
    """By patch, what its hunks add to sources; headers declare, and define nothing for the linker."""
    return {
        patch.name: "\n".join(
            line[1:].decode("utf-8", "replace")
            for file in patch.files
            if file.path.endswith((".mm", ".cpp"))
            for hunk in file.hunks
            for line in hunk.lines
            if line.startswith(b"+")
        )
        for patch in patches
    }


def patch_that_defines(shown: str, added: Mapping[str, str]) -> str:
    """The patch among whose added lines the function's definition begins, or empty."""
    match = _FUNCTION.search(shown)
    if not match:
        return ""
    # at::mps::MPSStream::isOnQueue is defined as MPSStream::isOnQueue, in the namespace; a free function by its own name.
    parts = match[1].split("::")
    owner, name = (parts[-2], parts[-1]) if len(parts) > 1 else ("", parts[-1])
    member = re.compile(rf"^\S.*\b{re.escape(owner)}::{re.escape(name)}\(", re.MULTILINE)
    free = re.compile(rf"^\w[\w:<>*& ]*[ *&]{re.escape(name)}\([^;]*$", re.MULTILINE)
    for patch, text in added.items():
        if member.search(text) or (not owner[:1].isupper() and free.search(text)):
            return patch
    return ""


def demangle(name: str) -> str:
    """The name in C++ of a symbol of a Mac's, which has an underscore in front; itself if it is no name of C++."""
    if not name.startswith("__Z"):
        return name
    import lief

    symbol = lief.MachO.Symbol()
    symbol.name = name[1:]
    return str(symbol.demangled_name)
