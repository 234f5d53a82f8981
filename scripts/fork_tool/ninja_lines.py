"""Lines of a file for ninja that every build with one has."""

from __future__ import annotations

import shutil
from collections.abc import Iterable


def beginning(folder: str) -> list[str]:
    """The first lines; ninja keeps what it knows in the folder."""
    return ["ninja_required_version = 1.8", f"builddir = {folder}"]


def rule(name: str, command: str, description: str, depfile: str = "") -> Iterable[str]:
    """A rule; the file of dependencies is one as compilers write it."""
    yield f"rule {name}"
    yield f"  command = {command}"
    yield f"  description = {description}"
    if depfile:
        yield f"  depfile = {depfile}"
        yield "  deps = gcc"


def compile_rule(words: str, description: str = "compiling $in") -> Iterable[str]:
    """The rule `compile`, of a compiler and its words."""
    return rule("compile", f"{words} -MD -MF $out.d -c $in -o $out", description, "$out.d")


def cached(compiler: str) -> str:
    """The compiler as a command, with the compiler's cache where there is one."""
    return f"{'ccache ' if shutil.which('ccache') else ''}{escaped(compiler)}"


def escaped(word: str) -> str:
    """A word in which ninja sees nothing of its own."""
    return word.replace("$", "$$").replace(" ", "$ ")
