"""Upstream's test of what is public, on the patched torch."""

from xml.etree import ElementTree

import pytest

from checked_tree import run_python

# Imports that fail because packages are missing that neither torch nor this repository needs.
WANT = ("pulp", "onnxscript")


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the cases say of the patched torch, in a program of its own, since they import all of torch; empty if one passes."""
    report = tmp_path_factory.mktemp("series") / "report.xml"
    words = ["-q", "-c", "/dev/null", "--rootdir", ".", "--noconftest", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = run_python("-m", "pytest", *words, f"--junitxml={report}", "test_public_bindings.py", simulated=True)
    assert report.exists(), done.stdout + done.stderr
    said = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        assert case.find("error") is None and case.find("skipped") is None
        failure = case.find("failure")
        said[case.get("name", "")] = "" if failure is None else str(failure.get("message"))
    return said


def test_only_missing_packages_are_complained_of(said: dict[str, str]) -> None:
    assert len(said) == 4
    assert {case for case, text in said.items() if text} <= {"test_modules_can_be_imported"}
    for line in said["test_modules_can_be_imported"].splitlines():
        if line.startswith("+ ") and "exception occurred importing package" not in line:
            assert any(package in line for package in WANT), line


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
