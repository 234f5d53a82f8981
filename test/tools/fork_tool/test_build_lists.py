"""The base's own file lists take every file of the overlay, and a file that they do not take is found.

CMake finds the backend's sources by patterns and the others by name, setup.py finds headers by patterns. A file that none
takes is left out of a build of torch without a word. The lists are read where the base has them, so that another base is
judged by its own.
"""

import re
import shutil
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

import pytest

from fork_tool.paths import Layout, own_layout
from fork_tool.series.overlay import list_overlay

_ATEN, _PATTERNS = "aten/src/ATen/", "aten/src/ATen/CMakeLists.txt"
_TESTS, _TEST_NAMES = "aten/src/ATen/test/", "aten/src/ATen/test/CMakeLists.txt"
_NAMES, _LIBRARY, _SETUP = "build_variables.bzl", "caffe2/CMakeLists.txt", "setup.py"
# Those of the MPS backend: a pattern of another backend's is for other builds.
_GLOB = re.compile(r'^file\(GLOB(_RECURSE)? \w*mps_(?:mm|cpp|h|metal) "([^"]+)"\)', re.MULTILINE)
_INSTALLED = re.compile(r'^ +"include/([^"]+\.h)",', re.MULTILINE)


def _matches(pattern: str, path: str, recursive: bool = False) -> bool:
    # `*` stays within its directory, unless CMake is told to go deeper.
    return fnmatchcase(path, pattern) and (recursive or pattern.count("/") == path.count("/"))


def _why_left_out(checkout: Path, path: str) -> str:
    """Why a file gets nowhere; empty when a list takes it."""

    def text(name: str) -> str:
        return (checkout / name).read_text("utf-8")

    suffix = PurePosixPath(path).suffix
    if path.startswith("test/"):
        # Not in the wheel; upstream's runner finds them by name, and they build the extensions.
        found = path.startswith("test/cpp_extensions/") or fnmatchcase(path, "test/*test_*.py")
        return "" if found else "test/run_test.py runs files called test_*.py only"
    if suffix == ".py":
        levels = [str(level) for level in PurePosixPath(path).parents][:-1]
        lacking = [level for level in levels if not (checkout / level / "__init__.py").exists()]
        return f"{_SETUP} does not find {', '.join(lacking)}, which has no __init__.py" if lacking else ""
    if path.startswith(_TESTS):
        if suffix == ".h":
            include = f"#include <{path.removeprefix('aten/src/')}>"
            used = any(include in source.read_text("utf-8") for source in (checkout / _TESTS).glob("*.mm"))
            return "" if used else f"no test in {_TESTS} includes it"
        named = f"{{CMAKE_CURRENT_SOURCE_DIR}}/{path.removeprefix(_TESTS)}\n" in text(_TEST_NAMES)
        return "" if named else f"{_TEST_NAMES} does not name it"
    if path.startswith(_ATEN):
        name = path.removeprefix(_ATEN)
        if not any(_matches(pattern, name, bool(recursive)) for recursive, pattern in _GLOB.findall(text(_PATTERNS))):
            return f"no pattern of the MPS backend in {_PATTERNS} takes it"
    if suffix == ".h":
        installed = any(_matches(each, path.removeprefix("aten/src/")) for each in _INSTALLED.findall(text(_SETUP)))
        # A header of the bindings is not installed, and compiled with the source of its name.
        own = str(PurePosixPath(path).with_suffix(".cpp"))
        used = not path.startswith(_ATEN) and (checkout / own).exists() and not _why_left_out(checkout, own)
        return (
            ""
            if installed or used
            else f"no pattern of the package data in {_SETUP} takes it, and no source of its name"
        )
    if path.startswith(_ATEN):
        return ""
    named = f'"{path}"' in text(_NAMES) or path.replace("torch/", "${TORCH_SRC_DIR}/", 1) in text(_LIBRARY)
    return "" if named else f"neither {_NAMES} nor {_LIBRARY} names it"


def left_out(checkout: Path, paths: list[str]) -> list[str]:
    """A sentence for each of these files that no list takes."""
    reasons = {path: _why_left_out(checkout, path) for path in paths}
    return [f"{path} would be left out of the build: {reason}" for path, reason in reasons.items() if reason]


LISTS = (
    "aten/src/ATen/CMakeLists.txt",
    "aten/src/ATen/test/CMakeLists.txt",
    "caffe2/CMakeLists.txt",
    "build_variables.bzl",
    "setup.py",
    "torch/__init__.py",
    "torch/_dynamo/__init__.py",
    "torch/_dynamo/backends/__init__.py",
    "torch/mps/__init__.py",
)


@pytest.fixture
def planted(tmp_path: Path) -> Layout:
    """A copy of the lists and of the overlay, in which files may be planted."""
    own = own_layout()
    if not (own.checkout / LISTS[0]).exists():
        pytest.skip("the base is not fetched")
    layout = Layout(tmp_path)
    shutil.copy(own.pin, layout.pin)
    for name in LISTS:
        target = layout.checkout / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(own.checkout / name, target)
    shutil.copytree(own.overlay, layout.overlay)
    shutil.copytree(own.overlay, layout.checkout, dirs_exist_ok=True)
    return layout


def test_every_file_of_the_overlay_is_taken(planted: Layout) -> None:
    paths = list_overlay(planted.overlay)
    assert len(paths) > 20
    assert {Path(path).suffix for path in paths} >= {".mm", ".cpp", ".h", ".py"}
    assert left_out(planted.checkout, paths) == []


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("aten/src/ATen/mps/deeper/Planted.mm", "no pattern of the MPS backend in aten/src/ATen/CMakeLists.txt"),
        ("aten/src/ATen/native/mps/operations/deeper/Planted.h", "no pattern of the package data in setup.py"),
        ("aten/src/ATen/mps/Planted.metal", "no pattern of the MPS backend in aten/src/ATen/CMakeLists.txt"),
        ("aten/src/ATen/cuda/Planted.cpp", "no pattern of the MPS backend"),
        ("aten/src/ATen/test/mps_test_planted.mm", "aten/src/ATen/test/CMakeLists.txt does not name it"),
        ("aten/src/ATen/test/mps_planted.h", "no test in aten/src/ATen/test/ includes it"),
        ("torch/csrc/mps/Planted.cpp", "neither build_variables.bzl nor caffe2/CMakeLists.txt names it"),
        ("torch/csrc/mps/Planted.h", "and no source of its name"),
        ("torch/mps/planted/module.py", "torch/mps/planted, which has no __init__.py"),
        ("torch/mps/planted.txt", "neither build_variables.bzl"),
        ("test/mps_graph_planted.py", "files called test_*.py only"),
    ],
)
def test_planted_file_is_found(planted: Layout, path: str, reason: str) -> None:
    for top in (planted.overlay, planted.checkout):
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).touch()
    [said] = left_out(planted.checkout, list_overlay(planted.overlay))
    assert said.startswith(f"{path} would be left out of the build: ") and reason in said
