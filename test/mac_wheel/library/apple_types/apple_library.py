"""What the library for a Mac itself asks of Apple's frameworks, read from its file."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fork_tool.mac_library.symbols import imports
from fork_tool.mac_library.tools import read_library

_CLASS = "_OBJC_CLASS_$_"


@dataclass(frozen=True)
class Asked:
    """Selectors that are sent or asked for, and the classes of other libraries with whether a system may lack them."""

    selectors: frozenset[str]
    # False for a class without which dyld does not load the library.
    classes: dict[str, bool]


def read_asked(lief: Any, library: Path) -> Asked:
    """Read a linked library."""
    binary = read_library(lief, library)
    sections = {section.name: section for section in binary.sections}
    selectors = set()
    if "__objc_selrefs" in sections:
        names = sections["__objc_methname"]
        text = bytes(names.content)
        # Addresses of names: the names' section has those of fields and properties, too.
        for (address,) in struct.iter_unpack("<Q", bytes(sections["__objc_selrefs"].content)):
            at = address - names.virtual_address
            selectors.add(text[at : text.index(0, at)].decode())
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
