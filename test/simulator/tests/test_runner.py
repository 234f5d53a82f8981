"""Tests of the runner of PyTorch's tests, on a test file with tests that crash, hang and fail in other ways."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from mps_simulator.remaining import ListError, of_file, read_list
from mps_simulator.run_test_mps import Run

TESTS = """
import os, time, traceback, unittest

import torch
from mps_simulator._control import _loaded

def complain():
    message = b"MPS simulator: -[MPSGraph third] is not simulated"
    _loaded().mps_simulator_note_error(b"unsupported", message)
    raise NotImplementedError(message.decode())

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

    def test_catches_what_is_lacking(self):
        with self.assertRaises(NotImplementedError):
            complain()

    @unittest.expectedFailure
    def test_catches_and_fails(self):
        try:
            complain()
        except NotImplementedError:
            self.fail("for another reason")

    @unittest.expectedFailure
    def test_fails_in_a_subtest_for_what_is_lacking(self):
        for number in range(3):
            with self.subTest(number=number):
                if number == 0:
                    complain()
                self.fail("for a good reason")

    @unittest.expectedFailure
    def test_lacks_a_type(self):
        raise NotImplementedError('MPS simulator: "add" not implemented for "Half"')

    @unittest.expectedFailure
    def test_is_refused(self):
        torch.histogram(torch.ones(0, device="mps"), 3)

    def test_crashes(self):
        os.kill(os.getpid(), 11)

    def test_hangs(self):
        time.sleep(600)

class TestSetUp(unittest.TestCase):
    def setUp(self):
        pass

    def test_passes(self):
        # Where a frame has no file, inspect.stack() takes 20 times as long, and the operator database calls it often.
        files = [frame.f_code.co_filename for frame, _ in traceback.walk_stack(None)]
        self.assertEqual([file for file in files if not os.path.exists(file)], [])
"""


GOOD_LIST = """
# a comment
failed   TestThings::test_fails  backend: the cause
xpassed  TestThings::test_passes_unexpectedly  simulator: better than macOS
failed   TestThings::test_lacks  simulator: some
failed   TestThings::test_fails_for_what_is_lacking  simulator: other
failed   TestThings::test_catches_what_is_lacking  simulator: third
failed   TestThings::test_catches_and_fails  simulator: third
failed   TestThings::test_fails_in_a_subtest_for_what_is_lacking  simulator: third
failed   TestThings::test_lacks_a_type  simulator: halves
errored  TestThings::test_crashes  itself
too-large  TestThings::test_hangs  machine: ten minutes
"""


def execute(
    tmp_path: Path,
    sample: str | Path | None = None,
    remaining: str | None = None,
    keyword: str | None = None,
    further: str | None = None,
    jobs: int = 1,
) -> tuple[int, dict[str, dict[str, object]]]:
    """Runs the file above and returns the exit status and the results by id."""
    (tmp_path / "test").mkdir(exist_ok=True)
    (tmp_path / "test" / "test_mps.py").write_text(TESTS)
    options = argparse.Namespace(
        sample=None,
        keyword=keyword,
        jobs=jobs,
        timeout=8.0,
        report=tmp_path / "report.json",
        file="test_mps.py",
        macos="0.0",
        remaining=None,
        further=None,
        touches=False,
    )
    if isinstance(sample, Path):
        options.sample = sample
    elif sample is not None:
        options.sample = tmp_path / "sample.txt"
        options.sample.write_text(sample)
    if remaining is not None:
        options.remaining = tmp_path / "remaining.txt"
        options.remaining.write_text(remaining)
    if further is not None:
        options.further = tmp_path / "further.txt"
        options.further.write_text(further)
    status = Run(options, tmp_path).execute()
    if not options.report.exists():
        return status, {}
    report = json.loads(options.report.read_text())
    results = {test["id"]: test for test in report["tests"]}
    for outcome, count in report["totals"].items():
        assert count == sum(test["outcome"] == outcome for test in results.values())
    return status, results


def test_every_outcome(tmp_path: Path) -> None:
    status, results = execute(tmp_path, jobs=2)
    assert status == 1
    assert {name.partition("::test_")[2]: test["outcome"] for name, test in results.items() if "Things" in name} == {
        "passes": "passed",
        "fails": "failed",
        "skips": "skipped",
        "fails_as_expected": "xfailed",
        "passes_unexpectedly": "xpassed",
        "lacks": "failed",
        "fails_for_what_is_lacking": "failed",
        "catches_what_is_lacking": "failed",
        "catches_and_fails": "failed",
        "fails_in_a_subtest_for_what_is_lacking": "failed",
        "lacks_a_type": "failed",
        "is_refused": "xfailed",
        "crashes": "errored",
        "hangs": "errored",
    }
    assert results["TestSetUp::test_passes"]["outcome"] == "passed"

    def of(test: str, what: str) -> object:
        return results[f"TestThings::test_{test}"][what]

    assert of("fails", "error") == "ValueError: the cause"
    assert of("crashes", "error") == "the process died of SIGSEGV"
    assert of("hangs", "error") == "timed out after 8 s"
    assert of("fails_as_expected", "error") == "AssertionError: 1 != 2"
    assert of("lacks", "missing_selector") == "-[MPSGraph some]"
    assert of("fails_for_what_is_lacking", "missing_selector") == "-[MPSGraph other]"
    for test in ("catches_what_is_lacking", "catches_and_fails", "fails_in_a_subtest_for_what_is_lacking"):
        assert of(test, "missing_selector") == "-[MPSGraph third]"
    assert of("passes", "missing_selector") is None
    # What validation refused is reported, but may well be what the test expects.
    assert "at least one byte" in str(of("is_refused", "violations"))
    assert not any(test["violations"] for name, test in results.items() if not name.endswith("is_refused"))


def test_an_exact_list(tmp_path: Path) -> None:
    status, results = execute(tmp_path, remaining=GOOD_LIST)
    assert status == 0
    # It would have timed out.
    hangs = results["TestThings::test_hangs"]
    assert (hangs["outcome"], hangs["error"]) == ("not_started", "machine: ten minutes")
    report = json.loads((tmp_path / "report.json").read_text())
    # What fails as the list says: all of it but that one.
    assert report["listed"] == 9
    assert (report["totals"]["passed"], report["totals"]["xfailed"], report["totals"]["not_started"]) == (2, 2, 1)


PASSES = "TestThings::test_passes"


@pytest.mark.parametrize(
    ("remaining", "problem"),
    [
        (GOOD_LIST.replace("errored  TestThings::test_crashes  itself", ""), "test_crashes: errored, but not on the"),
        (f"{GOOD_LIST}failed  {PASSES}  once", f"{PASSES}: passed, but on the list as failed"),
        (f"{GOOD_LIST}failed  {PASSES}_no_more  once", f"{PASSES}_no_more: is on the list, but there is no such"),
        (GOOD_LIST.replace("xpassed  ", "failed  "), "unexpectedly: xpassed, but on the list as failed"),
    ],
)
def test_a_list_that_is_not_exact(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], remaining: str, problem: str
) -> None:
    # The quick ones suffice.
    status, _ = execute(tmp_path, remaining=remaining, keyword="Things::test_(passes|crashes)")
    assert status == 1
    assert problem in capsys.readouterr().err


def test_a_sample_takes_the_list_along(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = "failed  TestThings::test_fails  backend: the cause\n"
    status, results = execute(tmp_path, f"{PASSES}\n", remaining=listed)
    assert status == 0
    assert set(results) == {PASSES, "TestThings::test_fails"}
    assert "1 of the list of remaining failures failed as it says" in capsys.readouterr().out
    assert execute(tmp_path, f"{PASSES}\n", remaining=f"{listed}failed  {PASSES}  once\n")[0] == 1


def test_a_further_list_counts_before_the_first(tmp_path: Path) -> None:
    lists = {"remaining": f"errored  {PASSES}  here\n", "further": "failed  TestThings::test_fails  captured\n"}
    assert execute(tmp_path, f"{PASSES}\n", **lists)[0] == 1
    lists["further"] += f"unstable  {PASSES}  captured\n"
    assert execute(tmp_path, f"{PASSES}\n", **lists)[0] == 0


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("failed  TestA::test_a", "2: a line has an outcome, a test and a cause"),
        ("passed  TestA::test_a  well", "2: the outcome 'passed' is none of"),
        ("failed  TestA::test_a  once\nfailed  TestA::test_a  twice", "3: TestA::test_a is on the list twice"),
    ],
)
def test_a_list_that_cannot_be_read(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "list").write_text(f"# first\n{text}\n")
    with pytest.raises(ListError, match=complaint):
        read_list(tmp_path / "list")


def test_an_entry_for_one_version(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("failed@14.5  TestA::test_a  old\nxpassed  TestB::test_b  both\n")
    assert [entry.outcome for entry in read_list(tmp_path / "list", "14.5").values()] == ["failed", "xpassed"]
    assert list(read_list(tmp_path / "list", "15.2")) == ["TestB::test_b"]


def test_a_list_of_several_files(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("failed  TestA::test_a  one\nfailed  nn/test_pooling.py::TestB::test_b  two\n")
    entries = read_list(tmp_path / "list")
    assert [entry.cause for entry in of_file(entries, "test_mps.py").values()] == ["one"]
    assert list(of_file(entries, "nn/test_pooling.py")) == ["TestB::test_b"]
    assert of_file(entries, "test_pooling.py") == {}


@pytest.mark.parametrize(
    ("sample", "status"),
    [
        ("# a comment\nTestThings::test_passes\n\nTestThings::test_fails_as_expected\n", 0),
        ("TestThings::test_passes\nTestThings::test_fails\n", 1),
        ("TestThings::test_passes_unexpectedly\n", 1),
        ("", 2),
    ],
)
def test_a_sample_must_pass_entirely(tmp_path: Path, sample: str, status: int) -> None:
    assert execute(tmp_path, sample)[0] == status


def test_unknown_test_in_the_sample(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(tmp_path, "TestThings::test_of_another_version\n") == (2, {})
    assert "lists tests that" in capsys.readouterr().err


def test_a_sample_by_rule(tmp_path: Path) -> None:
    rule = tmp_path / "rule.toml"
    rule.write_text('["test_mps.py"]\ntests = ["*::test_passes*"]\n')
    status, results = execute(tmp_path, rule, remaining=f"xpassed  {PASSES}_unexpectedly  once\n")
    assert status == 0
    assert set(results) == {PASSES, f"{PASSES}_unexpectedly", "TestSetUp::test_passes"}
