"""What the backend uses of Apple's frameworks is declared and implemented, and constants have Apple's values.

The build shows that classes and constants are there. PyObjC's metadata tells the values.
"""

from __future__ import annotations

import ast
import re
import zipfile
from functools import cache
from pathlib import Path

import pytest

from mps_simulator._build import build_directory, read_build
from objective_cases import cases_library
from objective_compiler import compile_source, FRAMEWORKS, INCLUDE, run_source

METADATA = Path(__file__).resolve().parents[3] / "build" / "toolchain" / "apple_metadata"

# PyObjC writes some unsigned constants as signed ones.
WORD = 1 << 64

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
    for declaration in re.findall(r"(?:^|;)\s*[-+]\s*(\([^;{}]*?)(?=[;{])", headers, flags=re.M):
        text = without_parentheses(declaration)
        parts = re.findall(r"(\w*)\s*:", text)
        found.update(["".join(f"{part}:" for part in parts)] if parts else text.split()[:1])
    for attributes, declaration in re.findall(r"@property\s*(\([^)]*\))?([^;]*);", headers):
        getter = re.search(r"getter\s*=\s*(\w+)", attributes)
        for variable in re.sub(r"<.*>", "", without_parentheses(declaration)).split(","):
            name = re.findall(r"\w+", variable)[-1]
            found.add(getter[1] if getter else name)
            if "readonly" not in attributes:
                found.add(f"set{name[0].upper()}{name[1:]}:")
    return found


def classes_in(text: str) -> dict[str, set[str]]:
    """Returns the selectors that the text declares, by class; those of all protocols under no name."""
    declared: dict[str, set[str]] = {}
    for kind, name, body in re.findall(
        r"^@(interface|implementation|protocol) (\w+)(.*?)^@end", text, flags=re.S | re.M
    ):
        declared.setdefault("" if kind == "protocol" else name, set()).update(selectors_in(body))
    return declared


@cache
def backend() -> str:
    """Returns the text of the backend's sources."""
    sources = read_build().checkout / "aten" / "src" / "ATen"
    files = [path for folder in ("mps", "native/mps") for path in (sources / folder).rglob("*")]
    return "".join(path.read_text() for path in files if path.suffix in (".mm", ".h"))


@cache
def words_of_the_backend() -> set[str]:
    """Returns the words of the backend's sources."""
    return set(re.findall(r"\w+", backend()))


def selectors_in_objects() -> set[str]:
    """Returns the selectors with arguments that the built backend has, by their look."""
    pattern = re.compile(rb"\0((?:[A-Za-z]\w*:){2,}|[a-z][A-Za-z0-9]{5,}:)(?=\0)")
    objects = build_directory().glob("CMakeFiles/backend_*.dir/**/*.o")
    return {found.decode() for path in objects for found in pattern.findall(path.read_bytes())}


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


@pytest.fixture(scope="module")
def headers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The selectors of our headers."""
    directory = tmp_path_factory.mktemp("headers")
    assert compile_source("", directory, "-E", "-P").returncode == 0
    return classes_in((directory / "source.o").read_text())


def test_what_the_backend_sends_is_declared(headers: dict[str, set[str]]) -> None:
    sent = selectors_in_objects()
    assert len(sent) > 250
    declared = set().union(*headers.values(), *classes_in(backend()).values())
    assert sorted(sent - declared) == []


def test_what_the_backend_may_use_is_implemented(headers: dict[str, set[str]]) -> None:
    textures = {"width", "height", "depth"}  # of what is not simulated
    used = {(owner, name) for owner, names in headers.items() for name in names - textures if may_be_used(name)}
    assert len(used) > 500
    assert used >= {("", "commit"), ("MPSGraph", "sinWithTensor:name:"), ("MPSGraphTensorData", "mpsndarray")}
    used |= {("", name) for name in IMPLICIT}
    assert [(owner, name) for owner, name in sorted(used) if not implemented(name, owner)] == []


def test_what_is_missing_is_noticed() -> None:
    assert not implemented("frobnicateTensor:name:")
    assert not implemented("newCommandQueue", by="MPSGraph")
    assert not implemented("description", by="MPSGraphFrobnicator")
    text = "- (void)frobnicate:(int (^)(id))block with:(id)other;\n@property(readonly) int a, b;"
    assert selectors_in(text) == {"frobnicate:with:", "a", "b"}


def constants_in_headers() -> list[str]:
    """Returns the enumerators that our headers declare for the three frameworks."""
    names: set[str] = set()
    for framework in FRAMEWORKS:
        for header in sorted((INCLUDE / framework).glob("*.h")):
            text = re.sub(r"//[^\n]*|/\*.*?\*/", "", header.read_text(), flags=re.S)
            for body in re.findall(r"(?:NS_ENUM|NS_OPTIONS|NS_CLOSED_ENUM|\benum\b)[^;{]*\{(.*?)\}", text, flags=re.S):
                for entry in body.split(","):
                    name = re.match(r"\s*(M(?:TL|PS)\w+)", entry)
                    if name:
                        names.add(name.group(1))
    return sorted(names)


def literal_text(node: ast.expr) -> str:
    """Returns the string that the expression consists of."""
    assert isinstance(node, ast.Constant)
    assert isinstance(node.value, str)
    return node.value


def constants_in_metadata() -> dict[str, int]:
    """Returns what the three packages say: text of the form ``$name@value$…``."""
    values: dict[str, int] = {}
    wheels = sorted(METADATA.glob("*.whl"))
    if len(wheels) != len(FRAMEWORKS):
        pytest.fail(f"{METADATA} lacks Apple's constants: run `make setup`")
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            (name,) = (name for name in archive.namelist() if name.endswith("/_metadata.py"))
            tree = ast.parse(archive.read(name).decode())
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "enums":
                for entry in literal_text(node.value).strip("$").split("$"):
                    constant, _, value = entry.partition("@")
                    if constant.startswith("M"):
                        values[constant] = int(value, 0)
    return values


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """The constants of our headers and the values that the compiler gives them."""
    names = constants_in_headers()
    lines = "".join(f'  std::printf("%s %lld\\n", "{name}", static_cast<long long>({name}));\n' for name in names)
    printed = run_source(f"#include <cstdio>\nint main() {{\n{lines}}}\n", tmp_path_factory.mktemp("constants"))
    return {name: int(value) for name, value in (line.split() for line in printed.splitlines())}


def test_headers_have_constants(ours: dict[str, int]) -> None:
    assert len(ours) > 120
    assert ours["MTLResourceStorageModePrivate"] == 32


def test_values_agree_with_apples(ours: dict[str, int]) -> None:
    apples = constants_in_metadata()
    wrong = {
        name: (value, apples[name])
        for name, value in ours.items()
        if name in apples and value % WORD != apples[name] % WORD and value % (1 << 32) != apples[name] % WORD
    }
    assert not wrong, "ours, Apple's"


def test_metadata_has_all_constants(ours: dict[str, int]) -> None:
    assert sorted(set(ours) - set(constants_in_metadata())) == []
