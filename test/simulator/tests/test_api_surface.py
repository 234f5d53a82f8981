"""All methods of Apple's frameworks that the backend uses are implemented; the build shows that they are declared."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from mps_simulator._build import read_build
from objective_cases import cases_library
from objective_compiler import compile_source

# Sent by literals, subscripts and loops, which do not write them.
IMPLICIT = {
    "countByEnumeratingWithState:objects:count:",
    "numberWithLong:",
    "numberWithUnsignedLong:",
    "objectAtIndexedSubscript:",
    "setObject:atIndexedSubscript:",
    "setObject:forKeyedSubscript:",
}


def without_parentheses(text: str) -> str:
    """Returns the text without types, attributes and their arguments."""
    while (shorter := re.sub(r"(?:__attribute__)?\([^()]*\)", " ", text)) != text:
        text = shorter
    return text


def selectors_in(headers: str) -> set[str]:
    """Returns the selectors of the methods and properties in preprocessed headers."""
    found = set()
    for declaration in re.findall(r"^\s*[-+]\s*(\([^;{}]*?);", headers, flags=re.M):
        text = without_parentheses(declaration)
        parts = re.findall(r"(\w*)\s*:", text)
        found.add("".join(f"{part}:" for part in parts) or text.split()[0])
    for attributes, declaration in re.findall(r"@property\s*(\([^)]*\))?([^;]*);", headers):
        getter = re.search(r"getter\s*=\s*(\w+)", attributes)
        for variable in re.sub(r"<.*>", "", without_parentheses(declaration)).split(","):
            name = re.findall(r"\w+", variable)[-1]
            found.add(getter[1] if getter else name)
            if "readonly" not in attributes:
                found.add(f"set{name[0].upper()}{name[1:]}:")
    return found


@cache
def words_of_the_backend() -> set[str]:
    """Returns the words of the backend's sources."""
    sources = read_build().checkout / "aten" / "src" / "ATen"
    files = [path for folder in ("mps", "native/mps") for path in (sources / folder).rglob("*")]
    return {word for path in files if path.suffix in (".mm", ".h") for word in re.findall(r"\w+", path.read_text())}


def may_be_used(selector: str) -> bool:
    """Whether the backend has all words of the selector, a property's name, or what its macros make one of."""
    words = words_of_the_backend()
    first, *others = selector.rstrip(":").split(":")
    spellings = {first, first.partition("With")[0]}
    if selector.startswith("set") and not others:
        spellings |= {first[3:], first[3:4].lower() + first[4:]}
    return bool(spellings & words) and words.issuperset(others)


def implemented(selector: str, by: str = "") -> bool:
    """Whether the class, or any class without a name, or its instances have the method."""
    return bool(cases_library().simulator_implements(by.encode(), selector.encode()))


def test_what_the_backend_may_use_is_implemented(tmp_path: Path) -> None:
    assert compile_source("", tmp_path, "-E", "-P").returncode == 0
    headers = (tmp_path / "source.o").read_text()
    used = {("", selector) for selector in IMPLICIT}
    for kind, name, body in re.findall(r"@(interface|protocol) (\w+)(.*?)@end", headers, flags=re.S):
        if name == "MTLTexture":  # not simulated; its words are common ones
            continue
        owner = name if kind == "interface" else ""
        used |= {(owner, selector) for selector in selectors_in(body) if may_be_used(selector)}
    assert len(used) > 500
    assert used >= {("", "commit"), ("MPSGraph", "sinWithTensor:name:"), ("MPSGraphTensorData", "mpsndarray")}
    assert [(owner, selector) for owner, selector in sorted(used) if not implemented(selector, owner)] == []


def test_what_is_missing_is_noticed() -> None:
    assert not implemented("frobnicateTensor:name:")
    assert not implemented("newCommandQueue", by="MPSGraph")
    assert not implemented("description", by="MPSGraphFrobnicator")
    text = "- (void)frobnicate:(int (^)(id))block with:(id)other;\n@property(readonly) int a, b;"
    assert selectors_in(text) == {"frobnicate:with:", "a", "b"}
