"""Whether the base's own file lists take every file of the overlay.

CMake finds the backend's sources by patterns and the others by name, setup.py finds headers by patterns. A file that none
takes is left out of the wheel without a word. The lists are read where the base has them, so that another base is
judged by its own.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from fork_tool.common.errors import ForkToolError
from fork_tool.series.overlay import list_overlay
from fork_tool.series.project import Project

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
    try:
        reasons = {path: _why_left_out(checkout, path) for path in paths}
    except FileNotFoundError as problem:
        raise ForkToolError(
            f"{problem.filename} is not there: is {checkout} a whole checkout of PyTorch with the series on it? "
            "`make fetch apply` makes one."
        ) from None
    return [f"{path} would be left out of the build: {reason}" for path, reason in reasons.items() if reason]


def refuse_left_out(project: Project) -> int:
    """Fail when a file of the overlay gets nowhere; returns how many there are."""
    paths = list_overlay(project.layout.overlay)
    problems = left_out(project.layout.checkout, paths)
    if problems:
        raise ForkToolError(
            f"{'; '.join(problems)}. Put the file where a list takes it, or change the list in the entry that brings it."
        )
    return len(paths)
