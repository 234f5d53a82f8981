"""Tests of the runner of PyTorch's tests, on a test file with tests that crash, hang and fail in other ways."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mps_simulator.remaining import ListError, of_file, read_list

TESTS = """
import inspect, os, time, traceback, unittest

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
        # Of a frame that it takes to have no module, inspect.stack() looks for it each time, and the operator database calls it often.
        files = {frame.f_code.co_filename for frame, _ in traceback.walk_stack(None)}
        self.assertEqual([file for file in files - set(inspect.modulesbyfile) if not os.path.exists(file)], [])
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
    tmp_path: Path, *words: str, tests: tuple[str, ...] = (), remaining: str | None = None, further: str | None = None
) -> tuple[subprocess.CompletedProcess[str], dict[str, dict[str, object]]]:
    """Runs the file above, or a sample of these tests, and returns how that ended and the results by id."""
    (tmp_path / "test").mkdir(exist_ok=True)
    (tmp_path / "test" / "test_mps.py").write_text(TESTS)
    report = tmp_path / "report.json"
    report.unlink(missing_ok=True)
    rule = f'["test_mps.py"]\ntests = {json.dumps(list(tests))}\n' if tests else None
    for option, text in (("sample", rule), ("remaining", remaining), ("further", further)):
        if text is not None:
            (tmp_path / f"{option}.toml").write_text(text)
            words += (f"--{option}", str(tmp_path / f"{option}.toml"))
    program = "import sys; from pathlib import Path; from mps_simulator import run_test_mps; "
    program += "sys.exit(run_test_mps.main(Path(sys.argv.pop(1))))"
    command = [
        sys.executable,
        "-c",
        program,
        str(tmp_path),
        "--macos",
        "0.0",
        "--timeout",
        "8",
        "--report",
        str(report),
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run([*command, *words], capture_output=True, text=True, check=False, env=environment)
    if not report.exists():
        return done, {}
    found = json.loads(report.read_text())
    results = {test["id"]: test for test in found["tests"]}
    for outcome, count in found["totals"].items():
        assert count == sum(test["outcome"] == outcome for test in results.values())
    return done, results


def test_every_outcome(tmp_path: Path) -> None:
    done, results = execute(tmp_path)
    assert done.returncode == 1, done.stderr
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
    assert "it timed out" in str(of("hangs", "error"))
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
    done, results = execute(tmp_path, remaining=GOOD_LIST)
    assert done.returncode == 0, done.stderr
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
def test_a_list_that_is_not_exact(tmp_path: Path, remaining: str, problem: str) -> None:
    # The quick ones suffice.
    done, _ = execute(tmp_path, "-k", "Things::test_(passes|crashes)", "--jobs", "1", remaining=remaining)
    assert done.returncode == 1
    assert problem in done.stderr


def test_a_sample_takes_the_list_along(tmp_path: Path) -> None:
    listed = "failed  TestThings::test_fails  backend: the cause\n"
    done, results = execute(tmp_path, tests=(PASSES,), remaining=listed)
    assert done.returncode == 0, done.stderr
    assert set(results) == {PASSES, "TestThings::test_fails"}
    assert "1 of the list of remaining failures failed as it says" in done.stdout
    assert execute(tmp_path, tests=(PASSES,), remaining=f"{listed}failed  {PASSES}  once\n")[0].returncode == 1


def test_not_run(tmp_path: Path) -> None:
    remaining = "not-run  TestThings::test_[!p]*  about something else\nskipped  TestThings::test_passes  never\n"
    done, results = execute(tmp_path, remaining=remaining)
    assert "passes: passed, but on the list as skipped" in done.stderr
    assert {test["outcome"] for name, test in results.items() if "test_p" not in name} == {"not_started"}


def test_a_further_list_counts_before_the_first(tmp_path: Path) -> None:
    lists = {"remaining": f"errored  {PASSES}  here\n", "further": "failed  TestThings::test_fails  captured\n"}
    assert execute(tmp_path, tests=(PASSES,), **lists)[0].returncode == 1
    lists["further"] += f"unstable  {PASSES}  captured\n"
    assert execute(tmp_path, tests=(PASSES,), **lists)[0].returncode == 0


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
    ("tests", "status"),
    [
        ((PASSES, "TestThings::test_fails_as_expected"), 0),
        ((PASSES, "TestThings::test_fails"), 1),
        (("TestThings::test_passes_unexpectedly",), 1),
        (("TestThings::test_of_another_version",), 2),
    ],
)
def test_a_sample_must_pass_entirely(tmp_path: Path, tests: tuple[str, ...], status: int) -> None:
    done, _ = execute(tmp_path, tests=tests)
    assert done.returncode == status
    assert ("no test has a name like" in done.stderr) == (status == 2)
