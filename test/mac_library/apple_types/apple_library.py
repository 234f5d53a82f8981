"""What the library for a Mac itself asks of Apple's frameworks, read from its file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fork_tool.mac_library.symbols import imports
from fork_tool.mac_library.tools import read_library

_CLASS = "_OBJC_CLASS_$_"


@dataclass(frozen=True)
class Asked:
    """Selectors that are sent or answered, and the classes of other libraries with whether a system may lack them."""

    selectors: frozenset[str]
    # False for a class without which dyld does not load the library.
    classes: dict[str, bool]


def read_asked(lief: Any, library: Path) -> Asked:
    """Read a linked library."""
    binary = read_library(lief, library)
    selectors = {
        name.decode()
        for section in binary.sections
        if section.name == "__objc_methname"
        for name in bytes(section.content).split(b"\0")
        if name
    }
    # dyld goes by its own list, and tools by the table of symbols: both must say so.
    bound = {binding.symbol.name: True for binding in binary.bindings if binding.has_symbol}
    for binding in binary.bindings:
        if binding.has_symbol:
            bound[binding.symbol.name] &= bool(binding.weak_import)
    classes = {
        each.name.removeprefix(_CLASS): each.weak and bound.get(each.name, True)
        for each in imports(lief, library)
        if each.name.startswith(_CLASS)
    }
    return Asked(frozenset(selectors), classes)
