"""The base's file lists take every file of the overlay, and a file that they do not take is found."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fork_tool.common.errors import ForkToolError
from fork_tool.paths import Layout, own_layout
from fork_tool.series.overlay import list_overlay
from fork_tool.series.project import Project
from fork_tool.wheel.build_lists import left_out, read_cmake, read_lists, refuse_left_out

LISTS = (
    "aten/src/ATen/CMakeLists.txt",
    "aten/src/ATen/test/CMakeLists.txt",
    "caffe2/CMakeLists.txt",
    "torch/CMakeLists.txt",
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


def plant(layout: Layout, path: str, text: str = "\n") -> None:
    """Put a file into the overlay and the checkout, as `apply` would."""
    for top in (layout.overlay, layout.checkout):
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(text)


def test_every_file_of_the_overlay_is_taken() -> None:
    own = own_layout()
    if not (own.checkout / LISTS[0]).exists():
        pytest.skip("the base is not fetched")
    paths = list_overlay(own.overlay)
    assert len(paths) > 20
    assert {Path(path).suffix for path in paths} >= {".mm", ".cpp", ".h", ".py"}
    assert left_out(own.checkout, paths) == []
    assert refuse_left_out(Project(own)) == len(paths)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("aten/src/ATen/mps/deeper/Planted.mm", "no pattern in aten/src/ATen/CMakeLists.txt"),
        ("aten/src/ATen/mps/deeper/Planted.h", "no pattern of INSTALL_HEADERS"),
        ("aten/src/ATen/native/mps/operations/deeper/Planted.h", "no pattern of the package data in setup.py"),
        ("aten/src/ATen/mps/Planted.metal", "no pattern in aten/src/ATen/CMakeLists.txt"),
        ("aten/src/ATen/test/mps_test_planted.mm", "ATen_MPS_TEST_SRCS in aten/src/ATen/test/CMakeLists.txt"),
        ("aten/src/ATen/test/planted.cpp", "C++ tests called mps_test_* only"),
        ("aten/src/ATen/cuda/Planted.cpp", "whose list goes into Caffe2_CPU_SRCS"),
        ("torch/csrc/mps/Planted.cpp", "no list in build_variables.bzl"),
        ("torch/csrc/mps/Planted.h", "no compiled source beside it includes it"),
        ("torch/mps/planted/module.py", "torch/mps/planted, which has no __init__.py"),
        ("tools/planted.py", "does not find tools"),
        ("torch/mps/planted.txt", "no list of the base takes files like *.txt"),
        ("test/mps_graph_planted.py", "files called test_*.py only"),
    ],
)
def test_planted_file_is_found(planted: Layout, path: str, reason: str) -> None:
    plant(planted, path)
    with pytest.raises(ForkToolError, match="would be left out of the build") as caught:
        refuse_left_out(Project(planted))
    assert path in str(caught.value)
    assert reason in str(caught.value)
    assert str(caught.value).count("would be left out") == 1


@pytest.mark.parametrize(
    "path",
    [
        "aten/src/ATen/mps/Planted.mm",
        "aten/src/ATen/mps/Planted.cpp",
        "aten/src/ATen/mps/Planted.h",
        "aten/src/ATen/native/mps/operations/deeper/Planted.mm",
        "aten/src/ATen/native/mps/kernels/Planted.metal",
        "torch/mps/planted.py",
        "test/test_mps_planted.py",
        "test/nn/test_planted.py",
    ],
)
def test_planted_file_in_its_place_is_taken(planted: Layout, path: str) -> None:
    plant(planted, path)
    refuse_left_out(Project(planted))


@pytest.mark.parametrize(
    ("lists", "line", "lost"),
    [
        (
            "build_variables.bzl",
            '    "torch/csrc/mps/Graphs.cpp",\n',
            ["torch/csrc/mps/Graphs.cpp", "torch/csrc/mps/Graphs.h"],
        ),
        ("aten/src/ATen/CMakeLists.txt", 'file(GLOB mps_h "mps/*.h")\n', None),
        ("aten/src/ATen/CMakeLists.txt", 'file(GLOB mps_mm "mps/*.mm")\n', None),
        ("caffe2/CMakeLists.txt", "  list(APPEND Caffe2_CPU_SRCS ${Caffe2_MPS_SRCS})\n", None),
        ("torch/CMakeLists.txt", 'append_filelist("libtorch_python_core_sources" TORCH_PYTHON_SRCS)\n', None),
        ("setup.py", '        "include/ATen/mps/*.h",\n', None),
        (
            "aten/src/ATen/test/CMakeLists.txt",
            "    ${CMAKE_CURRENT_SOURCE_DIR}/mps_test_stream.mm\n",
            ["aten/src/ATen/test/mps_test_stream.mm"],
        ),
    ],
)
def test_line_taken_from_a_list_is_missed(planted: Layout, lists: str, line: str, lost: list[str] | None) -> None:
    path = planted.checkout / lists
    text = path.read_text()
    assert text.count(line) == 1
    path.write_text(text.replace(line, ""))
    problems = left_out(planted.checkout, list_overlay(planted.overlay))
    assert problems
    if lost is not None:
        assert [problem.split()[0] for problem in problems] == lost


def test_binding_that_is_built_under_a_condition_only(planted: Layout) -> None:
    path = planted.checkout / "torch" / "CMakeLists.txt"
    line = 'append_filelist("libtorch_python_core_sources" TORCH_PYTHON_SRCS)\n'
    path.write_text(path.read_text().replace(line, f"if(USE_CUDA)\n{line}endif()\n"))
    assert read_lists(planted.checkout).left_out("torch/csrc/mps/Graphs.cpp")


def test_checkout_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ForkToolError, match="a whole checkout of PyTorch with the series on it"):
        read_lists(tmp_path)


def test_cmake_is_read(tmp_path: Path) -> None:
    path = tmp_path / "CMakeLists.txt"
    path.write_text(
        """# file(GLOB never "never/*.h")
FILE(GLOB one "one/*.cc"  # why
     "two/*.cc")
file(GLOB_RECURSE deep "deep/*.cc")
if(A AND (B OR C))
  set(ALL ${one} extra.cc)
  append_filelist("conditional" TARGETS)
endif()
list(APPEND ALL ${deep})
append_filelist("always" TARGETS)
"""
    )
    lists = read_cmake(path)
    assert lists.patterns == {"one": [("one/*.cc", False), ("two/*.cc", False)], "deep": [("deep/*.cc", True)]}
    assert lists.parts("ALL") == {"ALL", "one", "deep"}
    assert lists.named == {"TARGETS": {"always"}}
    taken = [
        path for path in ("one/a.cc", "one/b/a.cc", "deep/b/a.cc", "deep.cc", "two/a.h") if lists.takes("ALL", path)
    ]
    assert taken == ["one/a.cc", "deep/b/a.cc"]
