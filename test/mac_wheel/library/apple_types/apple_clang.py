"""libclang, of the same version as the compiler of the simulator's build."""

from __future__ import annotations

from typing import Any

from clang import cindex

__all__ = ["cindex", "parse"]

LIBRARY = "libclang-19.so.1"
if not cindex.Config.loaded:
    cindex.Config.set_library_file(LIBRARY)


def parse(text: str, words: list[str], name: str = "declarations.mm") -> Any:
    """Return the syntax tree of a text; a text that does not compile is an error that says why."""
    unit = cindex.Index.create().parse(name, words, unsaved_files=[(name, text)])
    bad = [str(found) for found in unit.diagnostics if found.severity >= cindex.Diagnostic.Error]
    if bad:
        raise ValueError("clang does not take it: " + "\n".join(bad[:10]))
    return unit
