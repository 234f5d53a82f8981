"""What the base's backend uses of Apple's, and the simulator does not know: a list that is kept and compared.

The simulator knows what its headers declare. What it declares and does not do says so when it is called; that is not
looked at here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fork_tool.common.errors import ForkToolError
from fork_tool.next_base.wheel import Facts

_CLASS = "_OBJC_CLASS_$_"
# Libraries of macOS whose functions a simulator of the device would have to have.
_FRAMEWORKS = (
    "Foundation",
    "CoreFoundation",
    "Metal",
    "MetalPerformanceShaders",
    "MetalPerformanceShadersGraph",
    "IOKit",
)
_METHOD = re.compile(r"^[-+]\s*(?=\()", re.MULTILINE)
_PROPERTY = re.compile(r"@property\s*(\([^)]*\))?([^;]*);")
_INTERFACE = re.compile(r"@(?:interface|class)\s+([\w\s,]+)")
_MACRO = re.compile(r"^#define (\w+)\(([\w, ]+)\)((?:.*\\\n)*.*)$", re.MULTILINE)
_FOLDERS = ("include", "foundation", "metal", "graph", "performance_shaders", "support")
KINDS = ("classes", "selectors", "functions")


@dataclass(frozen=True)
class AppleNames:
    """Names by kind, sorted."""

    classes: tuple[str, ...]
    selectors: tuple[str, ...]
    functions: tuple[str, ...]

    def minus(self, other: AppleNames) -> AppleNames:
        """Those that are not in the other."""
        return AppleNames(*(tuple(sorted(set(getattr(self, kind)) - set(getattr(other, kind)))) for kind in KINDS))

    def __bool__(self) -> bool:
        return any(getattr(self, kind) for kind in KINDS)

    def __str__(self) -> str:
        return "; ".join(f"{kind} {', '.join(getattr(self, kind))}" for kind in KINDS if getattr(self, kind))


def used_names(facts: Facts) -> AppleNames:
    """What the wheel's libraries use."""
    taken = {
        name
        for library, names in facts.imports.items()
        if any(f"/{framework}.framework/" in library for framework in _FRAMEWORKS)
        for name in names
    }
    classes = {name.removeprefix(_CLASS) for name in taken if name.startswith(_CLASS)}
    functions = {name.removeprefix("_") for name in taken if not name.startswith("_OBJC_")}
    return AppleNames(tuple(sorted(classes)), tuple(facts.selectors), tuple(sorted(functions)))


def simulated_names(simulator: Path) -> AppleNames:
    """What the simulator declares."""
    texts = [
        expanded(path.read_text("utf-8"))
        for folder in _FOLDERS
        for path in sorted((simulator / folder).rglob("*"))
        if path.suffix in (".h", ".mm", ".cpp")
    ]
    selectors = {name for text in texts for name in (*methods_in(text), *properties_in(text))}
    classes = {name for text in texts for match in _INTERFACE.finditer(text) for name in re.findall(r"\w+", match[1])}
    words = {word for text in texts for word in re.findall(r"\w+", text)}
    return AppleNames(tuple(sorted(classes)), tuple(sorted(selectors)), tuple(sorted(words)))


def expanded(text: str) -> str:
    """The text with the macros that it defines in place of lines that begin with their names."""
    for name, parameters, body in _MACRO.findall(text):
        names = re.split(r"\s*,\s*", parameters)

        def put(use: re.Match[str], names: list[str] = names, body: str = body) -> str:
            given = dict(zip(names, re.split(r"\s*,\s*", use[1])))
            line = body.replace("\\\n", " ")
            return re.sub(r"\w+", lambda word: given.get(word[0], word[0]), line).replace("##", "").strip()

        text = re.sub(rf"^{name}\(([^()]*)\)", put, text, flags=re.MULTILINE)
    return text


def methods_in(text: str) -> Iterable[str]:
    """The selectors of all methods that a text declares or defines."""
    for match in _METHOD.finditer(text):
        end = min(
            (at for at in (text.find(";", match.end()), text.find("{", match.end())) if at >= 0), default=len(text)
        )
        # The types stand in parentheses, those of blocks and functions in several.
        declaration, depth = "", 0
        for character in text[match.end() : end]:
            depth += (character == "(") - (character == ")")
            declaration += character if depth == 0 and character != ")" else " "
        parts = re.findall(r"(\w*)\s*:", declaration)
        if parts:
            yield "".join(f"{part}:" for part in parts)
        elif words := re.findall(r"\w+", declaration):
            yield words[0]


def properties_in(text: str) -> Iterable[str]:
    """The selectors that read and write the properties."""
    for attributes, declaration in _PROPERTY.findall(text):
        block = re.search(r"\(\^\s*(\w+)\s*\)", declaration)
        names = (
            [block[1]]
            if block
            else [found[-1] for part in declaration.split(",") if (found := re.findall(r"\w+", part))]
        )
        for name in names:
            getter = re.search(r"getter\s*=\s*(\w+)", attributes)
            yield getter[1] if getter else name
            if "readonly" not in attributes:
                yield f"set{name[0].upper()}{name[1:]}:"


def load_list(path: Path) -> AppleNames:
    """The list that is kept."""
    try:
        values = tomllib.loads(path.read_text("utf-8"))
        return AppleNames(*(tuple(values[kind]) for kind in KINDS))
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError) as problem:
        raise ForkToolError(
            f"{path} can't be read ({problem}): bring it back with `git checkout -- {path.name}`."
        ) from None


def apple_findings(lacking: AppleNames, kept: AppleNames, shown: str) -> list[str]:
    """A sentence for each difference between what the simulator lacks and what the list says."""
    found = []
    if new := lacking.minus(kept):
        found.append(f"the backend uses what the simulator does not know and {shown} does not list: {new}")
    if gone := kept.minus(lacking):
        found.append(f"{shown} lists what is no longer used, or what the simulator knows by now: {gone}; take it out")
    return found
