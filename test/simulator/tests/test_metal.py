"""Foundation, dispatch, Metal and the MPS objects: each case in Objective-C++ is a test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from objective_cases import built_names, failure_of, LIBRARY, names_in, run_python

# kExitStatus of support/deferred.h
EXIT_STATUS = 70
TESTS = Path(__file__).parent
CASES = [
    *TESTS.glob("foundation_*_cases.mm"),
    *TESTS.glob("metal_*_cases.mm"),
    *TESTS.glob("performance_shaders_*_cases.mm"),
]


def test_every_case_is_built() -> None:
    assert set(names_in(TESTS.glob("*_cases.mm"))) == built_names()


@pytest.mark.parametrize("name", names_in(path for path in sorted(CASES) if path.name != "metal_exit_cases.mm"))
def test_case(name: str) -> None:
    failure = failure_of(name)
    assert not failure, failure


def test_exception_in_an_asynchronous_block_ends_the_process() -> None:
    result = run_python("cases.simulator_throw_asynchronously()\n")
    assert result.returncode != 0
    assert "an exception left an asynchronous block: no caller can catch this" in result.stderr


@pytest.mark.parametrize("case", ["leave_work_in_flight", "leave_a_blocked_queue"])
def test_process_ends_with_work_in_flight(case: str) -> None:
    result = run_python(f"print(run('{case}') or 'fine')")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "fine\n"
    assert result.stderr == ""


LEFT = {
    "leave_a_failure": "a command buffer failed and the program did not wait for it: left behind",
    "leave_a_failure_to_come": "a command buffer failed and the program did not wait for it: left behind",
    "leave_misuse": "misuse that no later call reported: -[MTLBuffer contents]: left behind",
    "leave_a_hazard": "the host wrote byte 0 of the buffer",
}


@pytest.mark.parametrize("case", LEFT)
def test_fault_that_is_pending_when_the_process_ends(case: str) -> None:
    result = run_python(f"print(run('{case}'))")
    assert LEFT[case] in result.stderr
    assert result.returncode == EXIT_STATUS
    # What the program had written itself is not lost.
    assert result.stdout == "\n"


def test_exit_status_of_the_program_goes_first() -> None:
    result = run_python("run('leave_a_failure')\nsys.exit(3)")
    assert LEFT["leave_a_failure"] in result.stderr
    assert result.returncode == 3


def test_fault_that_somebody_was_told_is_not_pending() -> None:
    result = run_python("print(run('failed_command_is_reported_once'))")
    assert (result.returncode, result.stdout, result.stderr) == (0, "\n", "")


def test_fault_that_is_pending_fails_a_run_of_tests(tmp_path: Path) -> None:
    """Each test passes, and the last one leaves a fault to the end of the process."""
    (tmp_path / "test_left.py").write_text(
        "import ctypes\n"
        "import torch\n"
        f"cases = ctypes.CDLL({str(LIBRARY)!r})\n"
        "def test_left():\n"
        "    cases.simulator_run_case(b'leave_a_failure_to_come')\n"
    )
    report = tmp_path / "report.xml"
    result = subprocess.run(
        [sys.executable, "-m", "mps_simulator", "-m", "pytest", "-q", f"--junitxml={report}", "-p", "no:cacheprovider"]
        + ["-c", os.devnull, "--rootdir", str(tmp_path), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "1 passed" in result.stdout
    assert "left behind" in result.stderr
    assert result.returncode == EXIT_STATUS
    assert 'failures="0"' in report.read_text()


@pytest.mark.parametrize(
    "case", ["violation_untracked_memory_between_passes", "violation_concurrent_dispatches_conflict"]
)
def test_order_on_the_gpu_can_be_left_unwatched(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """These cases fail then, because nothing is reported."""
    monkeypatch.setenv("MPS_SIMULATOR_ORDER", "0")
    result = run_python(f"print(run('{case}'))")
    assert result.returncode == 0, result.stderr
    assert "no violation by order on the GPU" in result.stdout
