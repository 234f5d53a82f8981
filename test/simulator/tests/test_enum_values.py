"""Every constant of our headers has the value that Apple's has, as PyObjC's metadata tells it."""

from __future__ import annotations

import ast
import re
import zipfile
from pathlib import Path

import pytest

from objective_compiler import FRAMEWORKS, INCLUDE, run_source

METADATA = Path(__file__).resolve().parents[3] / "build" / "toolchain" / "apple_metadata"

# Constants that this version of the metadata lacks.
UNKNOWN_TO_METADATA = ("MPSDataTypeInt2", "MPSDataTypeUInt2")

# PyObjC writes some unsigned constants as signed ones.
WORD = 1 << 64


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
    assert len(ours) > 150
    assert ours["MTLResourceStorageModePrivate"] == 32


def test_values_agree_with_apples(ours: dict[str, int]) -> None:
    apples = constants_in_metadata()
    wrong = {
        name: (value, apples[name])
        for name, value in ours.items()
        if name in apples and value % WORD != apples[name] % WORD and value % (1 << 32) != apples[name] % WORD
    }
    assert not wrong, "ours, Apple's"


def test_what_the_metadata_lacks_is_listed(ours: dict[str, int]) -> None:
    assert sorted(set(ours) - set(constants_in_metadata())) == sorted(UNKNOWN_TO_METADATA)
