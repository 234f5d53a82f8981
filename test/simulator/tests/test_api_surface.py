"""All that the base's backend uses of Apple's frameworks is declared in our headers and implemented."""

from __future__ import annotations

import re
from pathlib import Path

from objective_cases import cases_library
from objective_compiler import compile_source, FRAMEWORKS, INCLUDE

NAMES = Path(__file__).parent / "api_surface"
# In none of Apple's headers: the backend declares the property itself.
DECLARED_BY_THE_BACKEND = {"setEnableCommitAndContinue:"}


def names(file: str) -> list[str]:
    """Returns the names that a list holds."""
    return (NAMES / file).read_text().split()


def has_class(name: str) -> bool:
    """Whether the runtime knows the class."""
    return bool(cases_library().simulator_has_class(name.encode()))


def implemented(selector: str, by: str | None = None) -> bool:
    """Whether the class, or any class, or its instances have the method."""
    return bool(cases_library().simulator_implements(by.encode() if by else None, selector.encode()))


def test_lists_are_long_enough() -> None:
    assert [len(names(f"{name}.txt")) for name in ("selectors", "classes", "mpsgraph_methods", "enum_constants")] == [
        355,
        34,
        163,
        85,
    ]


def test_classes_exist() -> None:
    assert [name for name in names("classes.txt") if not has_class(name)] == []


def test_selectors_are_implemented() -> None:
    assert [name for name in names("selectors.txt") if not implemented(name)] == []


def test_graph_methods_are_implemented() -> None:
    assert [name for name in names("mpsgraph_methods.txt") if not implemented(name, by="MPSGraph")] == []


def test_what_is_missing_is_noticed() -> None:
    assert not has_class("MPSGraphFrobnicator")
    assert not implemented("frobnicateTensor:name:")
    assert not implemented("newCommandQueue", by="MPSGraph")


def selector_source(selectors: list[str]) -> str:
    """Returns a function that names each selector."""
    return "void names() {\n" + "".join(f"  (void)@selector({name});\n" for name in selectors) + "}\n"


def test_selectors_are_declared(tmp_path: Path) -> None:
    selectors = {*names("selectors.txt"), *names("mpsgraph_methods.txt")} - DECLARED_BY_THE_BACKEND
    source = selector_source(sorted(selectors))
    compiled = compile_source(source, tmp_path, "-fsyntax-only", "-Werror=undeclared-selector")
    assert compiled.returncode == 0, compiled.stderr


def test_an_undeclared_selector_is_noticed(tmp_path: Path) -> None:
    source = selector_source(["frobnicateTensor:name:"])
    compiled = compile_source(source, tmp_path, "-fsyntax-only", "-Werror=undeclared-selector")
    assert "frobnicateTensor:name:" in compiled.stderr


def test_constants_are_declared() -> None:
    headers = "\n".join(
        header.read_text() for framework in FRAMEWORKS for header in sorted((INCLUDE / framework).glob("*.h"))
    )
    declared = set(re.findall(r"\w+", re.sub(r"//[^\n]*", "", headers)))
    assert [name for name in names("enum_constants.txt") if name not in declared] == []
