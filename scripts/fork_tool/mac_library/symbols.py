"""Which library each name comes from that ours does not define."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath

from fork_tool.mac_library.places import MacPlaces
from fork_tool.mac_library.symbol_tables import Import

PYTHON, NONE = "Python", "none"
_SYSTEM = "libSystem.B.dylib"
_API = re.compile(r"\bPyAPI_(?:FUNC|DATA)\s*\(.*?\)\s*(?:[\w\s]*?\b)?\*?\s*(\w+)\s*(?:\(|\[|;)", re.DOTALL)


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
                yield f"_{match[1]}"


def entries(places: MacPlaces) -> list[str]:
    """The names, with `*`, that are exported for the loader and for AOTInductor."""
    text = (places.own / "stubs" / "exported.txt").read_text()
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
