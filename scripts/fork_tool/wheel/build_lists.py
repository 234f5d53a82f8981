"""Whether the base's own file lists take every file of the overlay.

Upstream's CMake finds the backend's sources by patterns and those of the Python bindings by a list; a file that
neither takes is left out of the library without a word, and is missed when it is linked or imported at the
earliest. The patterns and lists are read where the base has them, so that another base is judged by its own.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from fork_tool.common.errors import ForkToolError
from fork_tool.series.overlay import list_overlay
from fork_tool.series.project import Project

_ATEN, _ATEN_LISTS = "aten/src/ATen", "aten/src/ATen/CMakeLists.txt"
_TESTS, _TEST_LISTS = f"{_ATEN}/test", f"{_ATEN}/test/CMakeLists.txt"
_LIBRARY_LISTS, _BINDINGS_LISTS = "caffe2/CMakeLists.txt", "torch/CMakeLists.txt"
_NAMES, _SETUP = "build_variables.bzl", "setup.py"
_COMPILED = (".mm", ".cpp", ".c", ".cc")

# A command of CMake's with its words. What conditions say is not known: every branch of them counts for patterns.
_COMMAND = re.compile(r"^[ \t]*(\w+)[ \t]*\(((?:[^()\"#]|\"[^\"]*\"|#[^\n]*|\([^()]*\))*)\)", re.MULTILINE)
_WORD = re.compile(r"\"([^\"]*)\"|([^\s\"]+)")
_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True)
class CMakeLists:
    """The lists of one CMakeLists.txt: patterns of files, and which list is made of which."""

    patterns: dict[str, list[tuple[str, bool]]]
    made_of: dict[str, set[str]]
    # append_filelist(NAME LIST) outside of any condition: names in build_variables.bzl that go into a list.
    named: dict[str, set[str]]
    # Files that are appended to a list by name, relative to the checkout or to the CMakeLists.txt.
    files: dict[str, set[str]]

    def parts(self, name: str) -> set[str]:
        """A list with all lists that go into it."""
        found: set[str] = set()
        waiting = [name]
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.add(one)
                waiting += self.made_of.get(one, ())
        return found

    def takes(self, name: str, path: str) -> bool:
        """Whether a pattern of the list takes a path, which is relative to the file's directory."""
        return any(
            _matches(pattern, recursive, path)
            for part in self.parts(name)
            for pattern, recursive in self.patterns.get(part, ())
        )


def read_cmake(path: Path) -> CMakeLists:
    """Read the lists of a CMakeLists.txt."""
    lists = CMakeLists({}, {}, {}, {})
    depth = 0
    for command, text in _COMMAND.findall(path.read_text("utf-8")):
        without_comments = re.sub(r"#[^\n]*", "", text)
        words = [quoted or plain for quoted, plain in _WORD.findall(without_comments)]
        name = command.lower()
        if name == "file" and words[:1] in (["GLOB"], ["GLOB_RECURSE"]):
            patterns = [(word, words[0] == "GLOB_RECURSE") for word in words[2:]]
            lists.patterns.setdefault(words[1], []).extend(patterns)
        elif name == "set" and len(words) > 1:
            lists.made_of.setdefault(words[0], set()).update(_VARIABLE.findall(" ".join(words[1:])))
        elif name == "list" and words[:1] == ["APPEND"]:
            lists.made_of.setdefault(words[1], set()).update(_VARIABLE.findall(" ".join(words[2:])))
            files = (
                word.replace("${TORCH_SRC_DIR}", "torch").replace("${CMAKE_CURRENT_SOURCE_DIR}/", "")
                for word in words[2:]
            )
            lists.files.setdefault(words[1], set()).update(file for file in files if file.endswith(_COMPILED))
        elif name in ("if", "endif"):
            depth += 1 if name == "if" else -1
        elif name == "append_filelist" and depth == 0:
            lists.named.setdefault(words[1], set()).add(words[0])
    return lists


def _matches(pattern: str, recursive: bool, path: str) -> bool:
    if not recursive:
        # `*` of a file(GLOB) stays within its directory.
        return pattern.count("/") == path.count("/") and fnmatchcase(path, pattern)
    directory, _, name = pattern.rpartition("/")
    return path.startswith(f"{directory}/") and fnmatchcase(PurePosixPath(path).name, name)


@dataclass(frozen=True)
class BaseLists:
    """All lists of a checkout by which a file gets into the wheel."""

    checkout: Path
    aten: CMakeLists
    tests: CMakeLists
    library: CMakeLists
    bindings: CMakeLists
    names: dict[str, object]
    excluded_packages: tuple[str, ...]
    headers: tuple[str, ...]

    def left_out(self, path: str) -> str:
        """Why a file gets nowhere; empty when a list takes it."""
        suffix, top = PurePosixPath(path).suffix, path.split("/")[0]
        if top == "test":
            return self._test(path)
        if suffix == ".py":
            return self._package(path)
        if path.startswith(f"{_TESTS}/"):
            return self._cpp_test(path.removeprefix(f"{_TESTS}/"))
        if path.startswith(f"{_ATEN}/"):
            return self._backend(path.removeprefix(f"{_ATEN}/"), suffix)
        if suffix in _COMPILED:
            return self._binding(path)
        return self._included(path) if suffix == ".h" else f"no list of the base takes files like *{suffix}"

    def _backend(self, path: str, suffix: str) -> str:
        if suffix == ".h":
            if not self.aten.takes("INSTALL_HEADERS", path):
                return f"no pattern of INSTALL_HEADERS in {_ATEN_LISTS} takes it"
            if not any(_matches(pattern, False, f"include/ATen/{path}") for pattern in self.headers):
                return f"no pattern of the package data in {_SETUP} takes it"
            return ""
        if suffix == ".metal":
            return "" if self.aten.takes("native_mps_metal", path) else f"no pattern in {_ATEN_LISTS} takes it"
        whole = "Caffe2_CPU_SRCS"
        taken = [name for name in self.library.parts(whole) if name.startswith("ATen_") and self.aten.takes(name, path)]
        if suffix in _COMPILED and taken:
            return ""
        return f"no pattern in {_ATEN_LISTS} whose list goes into {whole} takes it"

    def _cpp_test(self, path: str) -> str:
        if not fnmatchcase(path, "mps_test_*"):
            return "the simulator's build takes C++ tests called mps_test_* only"
        if path in self.tests.files.get("ATen_MPS_TEST_SRCS", ()):
            return ""
        return f"ATen_MPS_TEST_SRCS in {_TEST_LISTS} does not name it"

    def _binding(self, path: str) -> str:
        for name in self.bindings.named.get("TORCH_PYTHON_SRCS", ()):
            listed = self.names.get(name)
            if isinstance(listed, list) and path in listed:
                return ""
        if any(path in self.library.files.get(name, ()) for name in self.library.parts("Caffe2_CPU_SRCS")):
            return ""
        return f"no list in {_NAMES} that goes into TORCH_PYTHON_SRCS names it"

    def _included(self, path: str) -> str:
        if any(_matches(pattern, False, f"include/{path}") for pattern in self.headers):
            return ""
        directory = (self.checkout / path).parent
        mark = re.compile(
            rf'^\s*#\s*include\s*[<"](?:{re.escape(path)}|{re.escape(Path(path).name)})[>"]', re.MULTILINE
        )
        sources = [file for file in directory.iterdir() if file.suffix in _COMPILED]
        including = [file for file in sources if mark.search(file.read_text("utf-8", "replace"))]
        if any(not self._binding(file.relative_to(self.checkout).as_posix()) for file in including):
            return ""
        return "no compiled source beside it includes it"

    def _package(self, path: str) -> str:
        package = PurePosixPath(path).parent
        for level in [package, *package.parents][:-1]:
            if not (self.checkout / str(level) / "__init__.py").exists():
                return f"find_packages in {_SETUP} does not find {level}, which has no __init__.py"
        dotted = ".".join(package.parts)
        if any(fnmatchcase(dotted, pattern) for pattern in self.excluded_packages):
            return f"find_packages in {_SETUP} is told to leave {dotted} out"
        return ""

    def _test(self, path: str) -> str:
        # Tests are not in the wheel; upstream's runner finds them by name, and they build the extensions.
        if path.startswith("test/cpp_extensions/"):
            return ""
        return "" if fnmatchcase(path, "test/*test_*.py") else "test/run_test.py runs files called test_*.py only"


def read_lists(checkout: Path) -> BaseLists:
    """Read the lists of a checkout, with the series applied."""
    try:
        setup = ast.parse((checkout / _SETUP).read_text("utf-8"))
        names: dict[str, object] = {}
        # Upstream's CMake reads it in the same way.
        exec(compile((checkout / _NAMES).read_text("utf-8"), _NAMES, "exec"), names)
        return BaseLists(
            checkout,
            read_cmake(checkout / _ATEN_LISTS),
            read_cmake(checkout / _TEST_LISTS),
            read_cmake(checkout / _LIBRARY_LISTS),
            read_cmake(checkout / _BINDINGS_LISTS),
            names,
            _strings(setup, "excludes"),
            _strings(setup, "torch_package_data"),
        )
    except FileNotFoundError as problem:
        raise ForkToolError(
            f"{problem.filename} is not there: is {checkout} a whole checkout of PyTorch with the series on it? "
            "`make fetch apply` makes one."
        ) from None


def _strings(tree: ast.Module, variable: str) -> tuple[str, ...]:
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.List)):
            continue
        if [target.id for target in node.targets if isinstance(target, ast.Name)] == [variable]:
            return tuple(str(item.value) for item in node.value.elts if isinstance(item, ast.Constant))
    raise ForkToolError(f"{_SETUP} of the base has no list {variable}: build_lists.py must learn where it is now.")


def left_out(checkout: Path, paths: list[str]) -> list[str]:
    """A sentence for each of these files that no list takes."""
    lists = read_lists(checkout)
    reasons = {path: lists.left_out(path) for path in paths}
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
