"""What the libraries of a wheel for a Mac say of the base: names given, names taken, Objective-C's selectors."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fork_tool.mac_library.places import TORCH_LIBRARIES
from fork_tool.mac_library.symbol_tables import imports_of
from fork_tool.mac_library.tools import read_library

BACKEND = "libtorch_cpu.dylib"
_FORMAT = 1


@dataclass(frozen=True)
class Facts:
    """All lists are sorted."""

    sha256: str
    # What torch's libraries give to others.
    exports: list[str]
    # What they take from others, by the install name of the library that has it.
    imports: dict[str, list[str]]
    # What the backend sends to objects.
    selectors: list[str]

    def text(self) -> str:
        """As it is kept."""
        return json.dumps({"format": _FORMAT, **asdict(self)})

    @staticmethod
    def from_text(text: str) -> Facts | None:
        """What was kept, if this version of the tool wrote it."""
        try:
            values = json.loads(text)
            if values.pop("format") != _FORMAT:
                return None
            return Facts(**values)
        except (ValueError, KeyError, TypeError):
            return None


def read_facts(lief: Any, libraries: Path, sha256: str) -> Facts:
    """Read the libraries in a folder."""
    exports: set[str] = set()
    imports: dict[str, set[str]] = {}
    selectors: list[str] = []
    for name in TORCH_LIBRARIES:
        binary = read_library(lief, libraries / name)
        exports |= {symbol.name for symbol in binary.exported_symbols}
        for each in imports_of(binary):
            imports.setdefault(each.library, set()).add(each.name)
        if name == BACKEND:
            selectors = selectors_of(binary)
    return Facts(
        sha256, sorted(exports), {library: sorted(found) for library, found in sorted(imports.items())}, selectors
    )


def selectors_of(binary: Any) -> list[str]:
    """The selectors that its code sends."""
    for section in binary.sections:
        if section.name == "__objc_methname":
            return sorted(name.decode() for name in bytes(section.content).split(b"\0") if name)
    return []
