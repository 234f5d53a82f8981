"""The base's file lists take every file of the overlay, and a file that they do not take is found."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fork_tool.common.errors import ForkToolError
from fork_tool.paths import Layout, own_layout
from fork_tool.series.overlay import list_overlay
from fork_tool.series.project import Project
from fork_tool.wheel.build_lists import left_out, refuse_left_out

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
    assert refuse_left_out(Project(planted)) == len(paths)


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
    with pytest.raises(ForkToolError, match="would be left out of the build") as caught:
        refuse_left_out(Project(planted))
    assert path in str(caught.value)
    assert reason in str(caught.value)
    assert str(caught.value).count("would be left out") == 1


def test_checkout_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ForkToolError, match="a whole checkout of PyTorch with the series on it"):
        left_out(tmp_path, ["torch/csrc/mps/Graphs.cpp"])
