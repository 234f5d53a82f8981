"""One worker of run_test_mps: collects the tests once, runs those it is sent.

Arguments: the test file, a file descriptor that names a test a line, and one
that takes the answers, a JSON object a line.
"""

from __future__ import annotations

import json
import os
import re
import resource
import sys
import traceback
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from _pytest.unittest import TestCaseFunction

MISSING = re.compile(r"MPS simulator: (.+?) is not simulated")
# A worker that has grown this large is replaced after the test it is at.
WORN_OUT_BYTES = 5 << 30

expected_failures: list[str] = []


def _remember_expected_failure() -> None:
    """Keeps the exception of each expected failure, which pytest drops."""
    original = TestCaseFunction.addExpectedFailure

    def add_expected_failure(self: Any, testcase: Any, rawexcinfo: Any, reason: str = "") -> None:
        error = rawexcinfo[1] if isinstance(rawexcinfo, tuple) else rawexcinfo.value
        expected_failures.append("".join(traceback.format_exception(error)))
        original(self, testcase, rawexcinfo, reason)

    setattr(TestCaseFunction, "addExpectedFailure", add_expected_failure)  # noqa: B010


def _resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:500] if lines else ""


def _message(report: pytest.TestReport) -> str:
    # pytest marks errors by E, the root of a chain of exceptions first.
    marked = [line[1:] for line in report.longreprtext.splitlines() if line.startswith("E  ")]
    crash = getattr(report.longrepr, "reprcrash", None)
    return _first_line("\n".join(marked) or (crash.message if crash else report.longreprtext))


def _judge(reports: list[pytest.TestReport], expected: list[str]) -> dict[str, Any]:
    """Makes one outcome of what setup, call and teardown reported."""
    outcome, error, text = "passed", None, ""
    for report in reports:
        if report.outcome == "passed":
            continue
        text += report.longreprtext
        error = error or _message(report)
        if report.outcome == "skipped":
            outcome = "xfailed" if hasattr(report, "wasxfail") else "skipped"
        elif report.when != "call":
            outcome = "errored"
        elif "Unexpected success" in report.longreprtext.splitlines()[:1]:
            outcome = "xpassed"
        else:
            outcome = "failed"
    text += "".join(expected)
    missing = MISSING.search(text)
    if outcome == "xfailed" and missing:
        # The test expects what macOS does, not what is missing here.
        outcome, error = "failed", f"expected to fail, but not for: {missing.group(0)}"
    return {
        "outcome": outcome,
        "error": error,
        "missing_selector": missing.group(1) if missing else None,
    }


class Loop:
    """A pytest plugin that replaces the loop over all tests by a dialogue."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands = os.fdopen(commands, "r")
        self._answers = os.fdopen(answers, "w", buffering=1)

    def _answer(self, **fields: Any) -> None:
        self._answers.write(json.dumps(fields) + "\n")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        # test_mps.py::TestMPS::test_x → TestMPS::test_x
        items = {item.nodeid.split("::", 1)[1]: item for item in session.items}
        self._answer(ids=list(items))
        for line in self._commands:
            name = line.strip()
            expected_failures.clear()
            print(f"--- {name}", flush=True)
            reports = runtestprotocol(items[name], nextitem=None, log=False)
            self._answer(
                id=name,
                worn_out=_resident_bytes() > WORN_OUT_BYTES,
                **_judge(reports, expected_failures),
            )
        return True


def main() -> int:
    """Hands over to pytest, without the configuration of any project."""
    test_file, commands, answers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    _remember_expected_failure()
    # The file imports its neighbours.
    sys.path.insert(0, os.path.dirname(test_file))
    sys.argv = [test_file]
    return int(
        pytest.main(
            [test_file, "-c", os.devnull, "--rootdir", os.path.dirname(test_file)]
            + ["--noconftest", "-p", "no:cacheprovider", "--tb=short", "-q", "-q"],
            plugins=[Loop(commands, answers)],
        )
    )


if __name__ == "__main__":
    sys.exit(main())
