"""`test-patches`: each patch is built and tested as it would be reviewed, with only those that it needs."""

import json
from pathlib import Path
from typing import Any

import pytest

from fork_tool.common.errors import ForkToolError
from fork_tool.machine.machine import Machine
from fork_tool.series.project import Project
from fork_tool.suites import each_patch
from fork_tool.suites.reports import Count
from fork_tool.suites.suite import Suite
from workshop import LINUX, Workshop

OWN_TEST, PROGRAM = "test/test_mps_second.py", "aten/src/ATen/test/mps_test_second.mm"


@pytest.fixture
def series(applied: Workshop, monkeypatch: pytest.MonkeyPatch) -> tuple[Workshop, list[str]]:
    """Two patches, the second with a test of its own, and what was built and run in which tree."""
    applied.commit("[MPS] Second\n\nWhy.\n\nPatch: second", {OWN_TEST: "def test(): pass\n", PROGRAM: ""})
    applied.good("refresh")
    done: list[str] = []

    def build(project: Project, build: Path, checkout: Path, **_options: Any) -> None:
        done.append(f"build {build.name}, {'with' if (checkout / OWN_TEST).exists() else 'without'} the second's test")

    def run(_project: Project, _machine: Machine, suite: Suite, _build: Path) -> Count:
        done.append(f"{suite.name} in {suite.directory}: {suite.words[-1] if 'own' in suite.name else 'sample'}")
        return Count(passed=3)

    monkeypatch.setattr(each_patch, "build_simulator", build)
    monkeypatch.setattr(each_patch, "run_suite", run)
    monkeypatch.setattr(each_patch, "make_ready", lambda *_arguments: None)
    monkeypatch.setattr(each_patch, "simulator_machine", lambda: LINUX)
    return applied, done


def test_each_is_built_without_the_later_ones(series: tuple[Workshop, list[str]]) -> None:
    shop, done = series
    said = shop.good("test-patches")
    assert done == [
        "build simulator-patches, without the second's test",
        "recorder, upstream sample in .: sample",
        "build simulator-patches, with the second's test",
        "second, own tests in build/pytorch-patches/test: test_mps_second.py",
        "second, own C++ tests in .: mps_test_second",
        "second, upstream sample in .: sample",
    ]
    assert "2 patches build and pass with only those that they need." in said
    report = json.loads((shop.layout.reports / "patches.json").read_text())
    assert [(patch["patch"], patch["own_files"], patch["built"]) for patch in report] == [
        ("recorder", [], True),
        ("second", [PROGRAM, OWN_TEST], True),
    ]


def test_patch_of_a_later_group_stands_on_the_first_one(series: tuple[Workshop, list[str]]) -> None:
    shop, done = series
    shop.commit("[MPS] Third\n\nWhy.\n\nPatch: third", {"aten/Third.mm": "x\n"})
    shop.good("refresh")
    shop.layout.series.write_text("[core]\nrecorder\n[more]\nsecond\nthird\n")
    shop.good("test-patches", "--patch", "third")
    assert done[0] == "build simulator-patches, without the second's test"


def test_tests_that_a_patch_changes_are_its_own(series: tuple[Workshop, list[str]]) -> None:
    shop, done = series
    shop.commit("[MPS] Third\n\nWhy.\n\nPatch: third", {OWN_TEST: "another test\n"})
    shop.good("refresh")
    shop.good("test-patches", "--patch", "third")
    assert "third, own tests in build/pytorch-patches/test: test_mps_second.py" in done


def test_one_patch(series: tuple[Workshop, list[str]]) -> None:
    shop, done = series
    shop.good("test-patches", "--patch", "recorder")
    assert [line.split(",")[0] for line in done] == ["build simulator-patches", "recorder"]
    assert "no patch 'third': the series has recorder, second" in shop.error("test-patches", "--patch", "third")


def test_failures_are_named_and_the_others_still_run(
    series: tuple[Workshop, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, _ = series
    monkeypatch.setattr(each_patch, "run_suite", lambda *_arguments: Count(passed=1, failed=1))
    assert (
        shop.error("test-patches")
        == "These patches do not build or pass with only those that they need: recorder, second."
    )

    def broken(*_arguments: Any, **_options: Any) -> None:
        raise ForkToolError("it does not build")

    monkeypatch.setattr(each_patch, "run_suite", lambda *_arguments: Count(passed=1))
    monkeypatch.setattr(each_patch, "build_simulator", broken)
    assert (
        shop.error("test-patches")
        == "These patches do not build or pass with only those that they need: recorder, second."
    )
