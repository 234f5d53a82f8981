"""What the library exports: its entries, and the backend's functions for extensions."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fork_tool.mac_library.places import MacPlaces
from fork_tool.mac_library.symbol_types import EXTERNAL, KIND, PRIVATE, SECTION
from fork_tool.mac_library.tools import read_library

# The namespaces at::mps and at::native::mps.
BACKEND = ("__ZN2at3mps", "__ZNK2at3mps", "__ZN2at6native3mps", "__ZNK2at6native3mps")
# Of a symbol's description: another library's may take its place.
_WEAK = 0x80


def entries(places: MacPlaces) -> list[str]:
    """The names, with `*`, that are exported for the loader and for AOTInductor."""
    text = (places.own / "stubs" / "exported.txt").read_text()
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def backend_functions(lief: Any, objects: Iterable[Path]) -> list[str]:
    """The functions of the backend that its headers declare for others (`TORCH_API`).

    Data stays inside, and so do functions of which any library may have a copy, since dyld takes one for all.
    """
    found: set[str] = set()
    for path in objects:
        binary = read_library(lief, path)
        code = {number for number, section in enumerate(binary.sections, 1) if section.segment_name == "__TEXT"}
        for symbol in binary.symbols:
            seen = symbol.raw_type & EXTERNAL and not symbol.raw_type & PRIVATE
            defined = symbol.raw_type & KIND == SECTION and symbol.numberof_sections in code
            if seen and defined and not symbol.description & _WEAK and symbol.name.startswith(BACKEND):
                found.add(symbol.name)
    return sorted(found)
