"""scripts/mac_wheel/README.md lists every place in which libtorch_cpu or libtorch_python reaches the backend past the dispatcher."""

import ast
import re
from pathlib import Path

import layered_build
import pytest

from fork_tool.common.errors import ForkToolError
from fork_tool.mac_library.python_files import with_loader

README = layered_build.ROOT / "scripts/mac_wheel/README.md"
# The backend itself, upstream's tests, and CUDA's sources, which are not in a library for macOS.
OWN = re.compile(r"aten/src/ATen/(native/)?mps/|torch/csrc/mps/|(^|/)test/|/cuda/|/hip/")
# By name: its namespaces, headers and macros. By function: `copy_` called past the dispatcher.
REACHES = re.compile(r"\bat::mps\b|\bmps::\w|\bUSE_MPS\b|ATen/(native/)?mps/|csrc/mps/|\bMPSHooks\(|\bnative::copy_\(")


def places(checkout: Path) -> dict[str, int]:
    """The sources outside of the backend that name it, and on how many lines."""
    found = {}
    for top in ("aten/src", "c10", "caffe2", "torch/csrc"):
        for path in sorted((checkout / top).rglob("*")):
            if path.suffix not in (".cpp", ".h", ".hpp", ".mm", ".inc", ".c"):
                continue
            name = path.relative_to(checkout).as_posix()
            lines = sum(1 for line in path.read_text(errors="replace").splitlines() if REACHES.search(line))
            if lines and not OWN.search(name):
                found[name] = lines
    return found


def table(text: str) -> dict[str, tuple[int, str, str]]:
    """The table's rows: file, lines, how it is dealt with, the tests that show it."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| `")
    ]
    return {row[0].strip("`"): (int(row[1]), row[3], row[4]) for row in rows if len(row) == 5}


@pytest.fixture(scope="module")
def found() -> dict[str, int]:
    # The series changes none of them; test_the_series_adds_no_place sees to that.
    return places(layered_build.BASE_CHECKOUT if layered_build.BASE_CHECKOUT.exists() else layered_build.CHECKOUT)


def test_every_place_is_listed(found: dict[str, int]) -> None:
    assert {name: row[0] for name, row in table(README.read_text("utf-8")).items()} == found


def test_the_series_adds_no_place(found: dict[str, int]) -> None:
    patched = places(layered_build.CHECKOUT)
    # The C shim is the series' own and lies beside Inductor's.
    assert {name: lines for name, lines in patched.items() if "/shim_mps." not in name} == found


def test_each_row_says_what_is_done_and_where_it_is_shown() -> None:
    sources = "".join(path.read_text() for path in layered_build.HERE.glob("*.py"))
    for name, (_, dealt_with, shown) in table(README.read_text("utf-8")).items():
        assert dealt_with, name
        tests = re.findall(r"`(test_\w+)`", shown)
        assert tests or shown == "not needed", name
        for test in tests:
            assert f"def {test}(" in sources, test
    files = set(re.findall(r"`(\w+\.cpp)`", " ".join(row[1] for row in table(README.read_text("utf-8")).values())))
    assert files and all((layered_build.TAKEOVER / file).exists() for file in files)


def test_a_new_place_is_noticed(tmp_path: Path, found: dict[str, int]) -> None:
    source = tmp_path / "aten/src/ATen/native/New.cpp"
    source.parent.mkdir(parents=True)
    source.write_text("void f() {\n  at::mps::getDefaultMPSStream();\n}\n")
    assert places(tmp_path) == {"aten/src/ATen/native/New.cpp": 1} != found


# The lines by which torch/__init__.py calls the loader.


def test_lines_go_around_each_import() -> None:
    text = (layered_build.CHECKOUT / "torch/__init__.py").read_text("utf-8")
    changed = with_loader(text).splitlines()
    ast.parse("\n".join(changed))
    imports = [index for index, line in enumerate(changed) if line.lstrip().startswith("from torch._C import *")]
    assert len(imports) == 2
    for index in imports:
        assert (
            changed[index - 1].lstrip().startswith("from torch import _mps_graph_loader; _mps_graph_loader.take_over()")
        )
        assert changed[index + 1].strip() == "_mps_graph_loader.bind()"
    kept = [line for line in changed if "_mps_graph_loader" not in line]
    assert kept == text.splitlines()
    # The libraries that torch's own depend on are loaded by then.
    assert changed[imports[1] - 2].strip() == "_load_global_deps()"


@pytest.mark.parametrize("text", ["import os\n", "from torch import _mps_graph_loader\n"])
def test_other_files_are_refused(text: str) -> None:
    with pytest.raises(ForkToolError):
        with_loader(text)
