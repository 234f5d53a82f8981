"""Counts with their nouns."""

from __future__ import annotations

# Those that "s" alone does not make.
_SINGULAR = {"copies": "copy", "entries": "entry"}


def counted(count: int, things: str) -> str:
    """`counted(1, "entries")` is "1 entry"."""
    return f"{count} {_SINGULAR.get(things, things.removesuffix('s')) if count == 1 else things}"
