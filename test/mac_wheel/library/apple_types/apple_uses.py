"""What the patched backend uses of Apple's: selectors and classes from the library for a Mac, names from its sources.

The library lists every selector that is sent or asked for, so that no message can be missed; the constants are not in it, and
are looked up in the text.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from pathlib import Path

from fork_tool.mac_library.symbol_tables import imports
from fork_tool.mac_library.tools import read_library

FOLDERS = ("aten/src/ATen/mps/", "aten/src/ATen/native/mps/", "torch/csrc/mps/")
_CLASS = "_OBJC_CLASS_$_"


@dataclass
class Uses:
    """Names that a library and its sources use."""

    selectors: set[str] = field(default_factory=set)
    # Of other libraries; false for a class without which dyld does not load the library.
    classes: dict[str, bool] = field(default_factory=dict)
    # Every word of the sources outside comments and strings.
    words: set[str] = field(default_factory=set)


def sources_of(checkout: Path) -> list[Path]:
    """Return the backend's sources and headers."""
    return sorted(
        path
        for folder in FOLDERS
        for path in (checkout / folder).rglob("*")
        if path.suffix in (".mm", ".cpp", ".h") and path.is_file()
    )


def gather(library: Path, sources: list[Path]) -> Uses:
    """Read a linked library and sources."""
    uses = Uses()
    binary = read_library(library)
    sections = {section.name: section for section in binary.sections}
    if "__objc_selrefs" in sections:
        names = sections["__objc_methname"]
        text = bytes(names.content)
        # Addresses of names: the names' section has those of fields and properties, too.
        for (address,) in struct.iter_unpack("<Q", bytes(sections["__objc_selrefs"].content)):
            at = address - names.virtual_address
            uses.selectors.add(text[at : text.index(0, at)].decode())
    # dyld goes by its own list, and tools by the table of symbols: both must say so.
    strong = {binding.symbol.name for binding in binary.bindings if binding.has_symbol and not binding.weak_import}
    for each in imports(library):
        if each.name.startswith(_CLASS):
            uses.classes[each.name.removeprefix(_CLASS)] = each.weak and each.name not in strong
    for path in sources:
        uses.words |= set(re.findall(r"\w+", without_comments(path.read_text(errors="replace"))))
    return uses


def without_comments(text: str) -> str:
    """Blank out comments and strings; lines and columns stay."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match.group())

    raw = r'R"([^\s()\\]{0,16})\(.*?\)\1"'
    return re.sub(raw + r"|//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])'", blank, text, flags=re.S)
