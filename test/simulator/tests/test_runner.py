"""Tests of the runner of PyTorch's tests, on a test file that does everything wrong."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from mps_simulator.run_test_mps import Run

TESTS = """
import os, time, unittest

class TestThings(unittest.TestCase):
    def test_passes(self):
        pass

    def test_fails(self):
        try:
            raise ValueError("the cause")
        except ValueError as error:
            raise RuntimeError("the symptom") from error

    def test_skips(self):
        self.skipTest("not today")

    @unittest.expectedFailure
    def test_fails_as_expected(self):
        self.assertEqual(1, 2)

    @unittest.expectedFailure
    def test_passes_unexpectedly(self):
        pass

    def test_lacks(self):
        raise NotImplementedError("MPS simulator: -[MPSGraph some] is not simulated")

    @unittest.expectedFailure
    def test_fails_for_what_is_lacking(self):
        raise NotImplementedError("MPS simulator: -[MPSGraph other] is not simulated")

    def test_crashes(self):
        os.kill(os.getpid(), 11)

    def test_hangs(self):
        time.sleep(600)

class TestSetUp(unittest.TestCase):
    def setUp(self):
        pass

    def test_passes(self):
        pass
"""


def execute(
    tmp_path: Path, sample: str | None = None, minimum: float = 60.0
) -> tuple[int, dict[str, dict[str, object]]]:
    """Runs the file above and returns the exit status and the results by id."""
    (tmp_path / "test").mkdir(exist_ok=True)
    (tmp_path / "test" / "test_mps.py").write_text(TESTS)
    options = argparse.Namespace(
        sample=None, keyword=None, jobs=2, timeout=8.0, minimum=minimum, report=tmp_path / "report.json"
    )
    if sample is not None:
        options.sample = tmp_path / "sample.txt"
        options.sample.write_text(sample)
    status = Run(options, tmp_path).execute()
    if not options.report.exists():
        return status, {}
    report = json.loads(options.report.read_text())
    results = {test["id"]: test for test in report["tests"]}
    for outcome, count in report["totals"].items():
        assert count == sum(test["outcome"] == outcome for test in results.values())
    return status, results


def test_every_outcome(tmp_path: Path) -> None:
    status, results = execute(tmp_path)
    assert status == 1
    assert {name: test["outcome"] for name, test in results.items()} == {
        "TestThings::test_passes": "passed",
        "TestThings::test_fails": "failed",
        "TestThings::test_skips": "skipped",
        "TestThings::test_fails_as_expected": "xfailed",
        "TestThings::test_passes_unexpectedly": "xpassed",
        "TestThings::test_lacks": "failed",
        "TestThings::test_fails_for_what_is_lacking": "failed",
        "TestThings::test_crashes": "errored",
        "TestThings::test_hangs": "errored",
        "TestSetUp::test_passes": "passed",
    }
    assert results["TestThings::test_fails"]["error"] == "ValueError: the cause"
    assert results["TestThings::test_crashes"]["error"] == "the process died of SIGSEGV"
    assert results["TestThings::test_hangs"]["error"] == "timed out after 8 s"
    assert results["TestThings::test_lacks"]["missing_selector"] == "-[MPSGraph some]"
    assert results["TestThings::test_fails_for_what_is_lacking"]["missing_selector"] == "-[MPSGraph other]"
    assert results["TestThings::test_passes"]["missing_selector"] is None


def test_the_share_decides(tmp_path: Path) -> None:
    # 3 of 9 that are not skipped
    assert execute(tmp_path, minimum=34)[0] == 1
    assert execute(tmp_path, minimum=33)[0] == 0


@pytest.mark.parametrize(
    ("sample", "status"),
    [
        ("# a comment\nTestThings::test_passes\n\nTestThings::test_fails_as_expected\n", 0),
        ("TestThings::test_passes\nTestThings::test_fails\n", 1),
        ("TestThings::test_passes_unexpectedly\n", 1),
        ("", 1),
    ],
)
def test_a_sample_must_pass_entirely(tmp_path: Path, sample: str, status: int) -> None:
    assert execute(tmp_path, sample)[0] == status


def test_unknown_test_in_the_sample(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(tmp_path, "TestThings::test_of_another_version\n") == (2, {})
    assert "lists tests that" in capsys.readouterr().err
