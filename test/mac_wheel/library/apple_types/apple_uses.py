"""What the patched backend uses of Apple's: selectors and classes from its objects, names from its sources.

The objects are those of the simulator's build. They list every selector that is sent or asked for, so that no message
can be missed; the constants are in none, and are looked up in the text.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

import lief

FOLDERS = ("aten/src/ATen/mps/", "aten/src/ATen/native/mps/", "torch/csrc/mps/")
_LIST = ".objc_selector_list"
_CLASS = "__objc_class_ref_"
_ENTRY = 16


@dataclass
class Uses:
    """Names by the sources that use them."""

    selectors: dict[str, set[str]] = field(default_factory=dict)
    classes: dict[str, set[str]] = field(default_factory=dict)
    # Every word of the sources outside comments and strings.
    words: dict[str, set[str]] = field(default_factory=dict)


def objects_of(build: Path) -> dict[str, Path]:
    """Return the backend's objects in a build folder by the source's path in the checkout."""
    found = {}
    # Objects of sources that are gone stay in the folder.
    for entry in json.loads((build / "compile_commands.json").read_text()):
        _, separator, source = entry["file"].partition("build/pytorch/")
        words = shlex.split(entry["command"])
        path = build / words[words.index("-o") + 1]
        if separator and source.startswith(FOLDERS) and path.is_file():
            found[source] = path
    return found


def sources_of(checkout: Path) -> list[Path]:
    """Return the backend's sources and headers."""
    return sorted(
        path
        for folder in FOLDERS
        for path in (checkout / folder).rglob("*")
        if path.suffix in (".mm", ".cpp", ".h") and path.is_file()
    )


def gather(build: Path, checkout: Path) -> Uses:
    """Read objects and sources."""
    uses = Uses()
    for source, path in objects_of(build).items():
        selectors, classes = read_object(path)
        for name in selectors:
            uses.selectors.setdefault(name, set()).add(source)
        for name in classes:
            uses.classes.setdefault(name, set()).add(source)
    for path in sources_of(checkout):
        for word in set(re.findall(r"\w+", without_comments(path.read_text(errors="replace")))):
            uses.words.setdefault(word, set()).add(str(path.relative_to(checkout)))
    return uses


def read_object(path: Path) -> tuple[set[str], set[str]]:
    """Return the selectors and the classes that an object refers to."""
    binary = lief.parse(str(path))
    if not isinstance(binary, lief.ELF.Binary):
        raise ValueError(f"{path} is not an object of the simulator's build")
    sections = list(binary.sections)
    classes = {str(item.name)[len(_CLASS) :] for item in binary.symbols if str(item.name).startswith(_CLASS)}
    table = next((item for item in binary.symbols if item.name == _LIST), None)
    selectors: set[str] = set()
    if table is not None:
        home = sections[table.shndx]
        contents: dict[int, bytes] = {}
        for relocation in binary.object_relocations:
            at = relocation.address - home.virtual_address - table.value
            section, target = relocation.section, relocation.symbol
            if section is None or target is None or not 0 <= at < table.size or at % _ENTRY:
                continue
            # Addresses count from the beginning of each section, so that others may have the same.
            if section.file_offset == home.file_offset:
                if target.shndx not in contents:
                    contents[target.shndx] = bytes(sections[target.shndx].content)
                data = contents[target.shndx]
                start = target.value + relocation.addend
                selectors.add(data[start : data.index(0, start)].decode())
    return selectors, classes


def without_comments(text: str) -> str:
    """Blank out comments and strings; lines and columns stay."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match.group())

    raw = r'R"([^\s()\\]{0,16})\(.*?\)\1"'
    return re.sub(raw + r"|//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])'", blank, text, flags=re.S)
