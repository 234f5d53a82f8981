"""Checks of the samples of upstream's tests, and of the lists of what remains."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fork_tool.paths import own_layout
from fork_tool.suites.suite import load_suites, SMALL_SAMPLE
from mps_simulator._build import read_build
from mps_simulator.remaining import of_file, read_list
from mps_simulator.run_test_mps import pytest_words, REMAINING, worker_environment
from mps_simulator.sample import read_sample
from mps_simulator.touched import files_of, sources_for

TESTS = Path(__file__).resolve().parent
SAMPLE = TESTS / "test_mps_sample.toml"


def test_every_source_of_the_backend_must_run() -> None:
    """Whether it ran is seen when the sample is run."""
    sources = [sources_for(file, read_build().checkout) for file in ("test_mps.py", "test_optim.py")]
    assert "FusedSgdKernel.mm" in sources[1] and "Equal.cpp" in sources[0] and len(sources[0]) > 50
    for suite in load_suites(own_layout()):
        assert (f"test/simulator/tests/{SAMPLE.name}" in suite.words) == ("--touches" in suite.words), suite.name


def test_functions_are_told_by_their_objects(tmp_path: Path) -> None:
    (tmp_path / "map").write_text(
        "             VMA              LMA     Size Align Out     In      Symbol\n"
        "            1000             1000      200    16 .text\n"
        "            1000             1000       80    16         ops.dir/a/Blas.mm.o:(.text.mm_out)\n"
        "            1000             1000       80     1                 mm_out\n"
        "            1080             1080       20    16         ops.dir/a/Blas.mm.o:(.text.of_a_header)\n"
        "            10c0             10c0       40    16         ops.dir/a/Eye.mm.o:(.text.eye_out)\n"
    )

    def files(*offsets: int) -> set[str]:
        return files_of(offsets, tmp_path / "map", lambda _object: {"mm_out", "eye_out"})

    assert files(0x1000) == {"Blas.mm"}
    assert files(0x107F, 0x10C0) == {"Blas.mm", "Eye.mm"}
    # before all, of a header, between two, after all
    assert files(0xFFF, 0x1080, 0x10A0, 0x1100) == set()


def test_source_that_no_test_goes_through(tmp_path: Path) -> None:
    """One test, of exp(): it is seen that it ran and that others did not."""
    report, none = tmp_path / "report.json", tmp_path / "none"
    none.touch()
    words = f"--jobs 1 --touches -k ^TestMPS::test_exp$ --report {report} --remaining {none}".split()
    ran = subprocess.run([sys.executable, "-m", "mps_simulator.run_test_mps", *words], check=False)
    assert ran.returncode == 1
    missed = {problem.removeprefix("no test ran code of ") for problem in json.loads(report.read_text())["problems"]}
    assert "CrossKernel.mm" in missed
    assert not missed & {"UnaryKernel.mm", "FusedSgdKernel.mm"}


@pytest.fixture(scope="module")
def upstream() -> list[str]:
    """The ids of all tests of test_mps.py."""
    test_file = read_build().checkout / "test" / "test_mps.py"
    command = [sys.executable, "-m", "pytest", *pytest_words(test_file), "--collect-only"]
    where, environment = test_file.parent, worker_environment()
    listed = subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True, check=True).stdout
    return [line.partition("::")[2] for line in listed.splitlines() if "::" in line]


def test_every_class_is_touched(upstream: list[str]) -> None:
    classes = {test.partition("::")[0] for test in upstream}
    chosen = read_sample(SAMPLE).choose("test_mps.py", upstream)
    assert classes - {test.partition("::")[0] for test in chosen} == set()


def test_how_much_is_chosen(upstream: list[str]) -> None:
    """More means that the suites take longer, and the small sample is for what takes ten times as long."""
    chosen = read_sample(SAMPLE).choose("test_mps.py", upstream)
    few = read_sample(own_layout().root / SMALL_SAMPLE).choose("test_mps.py", upstream)
    assert set(few) < set(chosen)
    assert 0.3 < len(chosen) / len(upstream) < 0.5
    assert 0.02 < len(few) / len(upstream) < 0.04


@pytest.mark.parametrize("version", ["15.2", "14.5"])
def test_the_lists_name_tests_that_exist(version: str, upstream: list[str]) -> None:
    entries = read_list(REMAINING, version)
    assert set(of_file(entries, "test_mps.py")) - set(upstream) == set()
