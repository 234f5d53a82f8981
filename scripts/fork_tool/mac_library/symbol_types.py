"""What the type of a symbol in a Mach-O file says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# Masks: what tells kinds apart, seen by other files, seen by this library alone, of a debugger.
KIND, EXTERNAL, PRIVATE, DEBUG = 0x0E, 0x01, 0x10, 0xE0
# Kinds: undefined, and defined in a section.
UNDEFINED, SECTION = 0x00, 0x0E


def external_symbols(binary: Any, *, defined: bool) -> Iterator[Any]:
    """The symbols by which a file is bound to others: those that it defines, or those that it takes."""
    # One by one: a symbol lives no longer than the file that it is of, which is kept until the last one was given.
    for symbol in binary.symbols:
        seen = symbol.raw_type & EXTERNAL and not symbol.raw_type & DEBUG
        if seen and (symbol.raw_type & KIND != UNDEFINED) == defined:
            yield symbol
