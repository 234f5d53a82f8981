"""The classes that the overlay defines, and their methods: no header of Apple's has either."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from apple_declarations import INCLUDE, ROOT
from fork_tool.next_base.apple import methods_in, properties_in

_ENGINE = ROOT / "aten_mps_overlay" / "aten" / "src" / "ATen" / "mps"
# With a body: a class that is only declared, or gets a category, is Apple's.
_IMPLEMENTATION = re.compile(r"^@implementation\s+(\w+)\b(?!\s*\()(.*?)^@end", re.MULTILINE | re.DOTALL)


def own_names(sources: Iterable[str], apple: Iterable[str]) -> tuple[set[str], set[str]]:
    """The classes that sources define, and the methods of these that Apple's headers don't declare."""
    found = [match for text in sources for match in _IMPLEMENTATION.finditer(text)]
    methods = {name for match in found for name in methods_in(match[2])}
    declared = {name for text in apple for name in (*methods_in(text), *properties_in(text))}
    return {match[1] for match in found}, methods - declared


def names_of_the_overlay() -> tuple[set[str], set[str]]:
    """Those of the engine."""
    return own_names(_texts(_ENGINE, ".mm"), _texts(INCLUDE, ".h"))


def _texts(folder: Path, suffix: str) -> list[str]:
    return [path.read_text("utf-8") for path in sorted(folder.rglob(f"*{suffix}"))]
