"""Upstream's test of what is public, with the series and without: what is new in its complaints is the series' fault."""

from __future__ import annotations

import hashlib
import json
import sys
from importlib.metadata import distributions
from pathlib import Path
from xml.etree import ElementTree

import pytest

from checked_tree import git, LAYOUT, run_python
from fork_tool.base.checkout import BASE_REF
from fork_tool.common.files import write_atomically

# Imports that fail because packages are missing that neither torch nor this repository needs.
WANT = ("pulp", "onnxscript")


@pytest.fixture(scope="module")
def with_series(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the cases say of the patched torch; empty for one that passes."""
    return run(tmp_path_factory.mktemp("series") / "report.xml", simulated=True)


@pytest.fixture(scope="module")
def without_series(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What they say of the wheel; kept, since that changes with the environment and the file alone."""
    packages = sorted(f"{one.name} {one.version}" for one in distributions())
    text = git("show", f"{BASE_REF}:test/test_public_bindings.py")
    asked = hashlib.sha256("\n".join([sys.version, *packages, text]).encode()).hexdigest()
    kept = LAYOUT.upstream_checks / "public_bindings_of_the_wheel.json"
    if kept.is_file() and (found := json.loads(kept.read_text()))["asked"] == asked:
        said: dict[str, str] = found["said"]
        return said
    said = run(tmp_path_factory.mktemp("base") / "report.xml", simulated=False)
    write_atomically(kept, json.dumps({"asked": asked, "said": said}).encode())
    return said


def run(report: Path, simulated: bool) -> dict[str, str]:
    """Run the file as a program of its own, since it imports all of torch."""
    words = ["-q", "-c", "/dev/null", "--rootdir", ".", "--noconftest", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = run_python("-m", "pytest", *words, f"--junitxml={report}", "test_public_bindings.py", simulated=simulated)
    assert report.exists(), done.stdout + done.stderr
    said = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        assert case.find("error") is None
        assert case.find("skipped") is None
        failure = case.find("failure")
        said[case.get("name", "")] = "" if failure is None else str(failure.get("message"))
    return said


def new_lines(with_series: dict[str, str], without_series: dict[str, str], case: str) -> set[str]:
    """What a case says with the series alone."""
    before = set(without_series[case].splitlines())
    return {line for line in with_series[case].splitlines() if line not in before}


def test_cases_are_those_of_the_base(with_series: dict[str, str], without_series: dict[str, str]) -> None:
    assert len(with_series) == 4
    assert with_series.keys() == without_series.keys()
    assert {case for case, text in with_series.items() if text} == {
        case for case, text in without_series.items() if text
    }


@pytest.mark.parametrize(
    "case",
    [
        "test_correct_module_names",
        "test_modules_can_be_imported",
        "test_no_new_bindings",
        "test_no_new_reexport_callables",
    ],
)
def test_nothing_new_is_said(with_series: dict[str, str], without_series: dict[str, str], case: str) -> None:
    assert new_lines(with_series, without_series, case) == set()


def test_what_fails_here_fails_for_want_of_packages(without_series: dict[str, str]) -> None:
    failed = {case for case, text in without_series.items() if text}
    assert failed <= {"test_modules_can_be_imported"}
    text = without_series["test_modules_can_be_imported"]
    for line in text.splitlines():
        if line.startswith("+ ") and "exception occurred importing package" not in line:
            assert any(package in line for package in WANT)


def test_planted_name_is_complained_of() -> None:
    """The modules of the series are among those that are looked at."""
    program = (
        "import pkgutil, sys, torch.mps.graphs\n"
        # The whole of torch takes longer.
        "modules = [one for one in pkgutil.walk_packages(torch.mps.__path__, 'torch.mps.')]\n"
        "pkgutil.walk_packages = lambda *_arguments, **_options: modules\n"
        "torch.mps.graphs.planted = lambda: None\n"
        "torch.mps.graphs.planted.__module__ = 'torch.mps.graphs'\n"
        "sys.argv = ['test_public_bindings.py', 'TestPublicBindings.test_correct_module_names']\n"
        "import runpy; runpy.run_path('test_public_bindings.py', run_name='__main__')\n"
    )
    done = run_python("-c", program, simulated=True)
    assert done.returncode != 0
    assert "# torch.mps.graphs.planted:" in done.stderr
