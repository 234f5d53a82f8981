"""One worker of run_test_mps: collects the tests once, runs those it is sent.

Arguments: the test file, a file descriptor that names a test a line, and one
that takes the answers, a JSON object a line.
"""

from __future__ import annotations

import gc
import json
import os
import re
import resource
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from _pytest.runner import runtestprotocol
from _pytest.unittest import TestCaseFunction

from mps_simulator import frozen_objects
from mps_simulator._build import SimulatorError
from mps_simulator._control import (
    forget_functions_run,
    forget_raised_errors,
    functions_run,
    raised_errors,
    restart_thread_orders,
)
from mps_simulator._install import is_installed
from mps_simulator.remaining import GOOD

# What the simulator says of an operation, or of a data type, that it lacks.
LACKING = re.compile(r"MPS simulator: (?:(.+?) is not simulated|(.+))")
# A worker that has grown this large is replaced after the test it is at.
WORN_OUT_BYTES = 5 << 30
# How long a test's threads may go on after it, in seconds each.
THREADS_TIMEOUT = 60.0

expected_failures: list[BaseException] = []

T = TypeVar("T")


def _remember_expected_failure() -> None:
    """Keeps the exception of each expected failure, which pytest drops."""
    original = TestCaseFunction.addExpectedFailure

    def add_expected_failure(self: Any, testcase: Any, rawexcinfo: Any, reason: str = "") -> None:
        error = rawexcinfo[1] if isinstance(rawexcinfo, tuple) else rawexcinfo.value
        expected_failures.append(error)
        original(self, testcase, rawexcinfo, reason)

    setattr(TestCaseFunction, "addExpectedFailure", add_expected_failure)  # noqa: B010


def _resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:500] if lines else ""


def _chain(excinfo: pytest.ExceptionInfo[BaseException]) -> str:
    """Returns what the exceptions of a chain say, the root first.

    In the place of pytest's text, for each line of which it parses the whole file: a tenth of the run.
    """
    error: BaseException | None = excinfo.value
    if isinstance(error, pytest.fail.Exception) and not error.pytrace:
        return str(error)
    said: list[str] = []
    while error is not None and len(said) < 100:
        said.insert(0, f"{type(error).__name__}: {error}")
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\n".join(said)


def _root_message(error: BaseException) -> str:
    """Returns what began a chain of exceptions, in a line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return _first_line(f"{type(error).__name__}: {error}")


def _ask(question: Callable[[], T], otherwise: T) -> T:
    """Asks the simulator, which may not run here: in a test of this runner, or in a forked child."""
    try:
        return question()
    except SimulatorError:
        return otherwise


def _late_failure() -> str | None:
    """Waits for the GPU and returns what failed on it: it must not meet the next test."""
    torch = sys.modules.get("torch")
    if torch is None or not is_installed() or not torch.backends.mps.is_available():
        return None
    try:
        # A test may return before its threads, and waiting is not safe beside their work.
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join(THREADS_TIMEOUT)
        torch.mps.synchronize()
    except Exception as error:  # whatever it is, it is reported
        return _root_message(error)
    return None


def _judge(reports: list[pytest.TestReport], expected: list[BaseException], complaints: list[str]) -> dict[str, Any]:
    """Makes one outcome of what setup, call and teardown reported."""
    outcome, error, text = "passed", None, ""
    for report in reports:
        if report.outcome == "passed":
            continue
        text += report.longreprtext
        error = error or _first_line(report.longreprtext)
        if report.outcome == "skipped":
            outcome = "xfailed" if hasattr(report, "wasxfail") else "skipped"
        elif report.when != "call":
            outcome = "errored"
        elif "Unexpected success" in report.longreprtext.splitlines()[:1]:
            outcome = "xpassed"
        else:
            outcome = "failed"
    if expected and outcome == "xfailed":
        error = _root_message(expected[-1])
    lacking = [line for line in complaints if line.startswith("unsupported: ")]
    failures = [line for failure in expected for line in traceback.format_exception(failure)]
    missing = LACKING.search("\n".join([*lacking, text, *failures]))
    if missing and outcome == "xfailed":
        # The test expects what macOS does, not what is missing here.
        outcome, error = "failed", f"expected to fail, but not for: {missing.group(0)}"
    if missing and outcome == "passed":
        outcome, error = "failed", f"passed, but caught: {missing.group(0)}"
    return {
        "outcome": outcome,
        "error": error,
        "missing_selector": (missing.group(1) or missing.group(2)) if missing else None,
        "violations": [line for line in complaints if not line.startswith("unsupported: ")],
    }


def _let_go() -> None:
    """Drops the last exception, whose frames hold tensors of the test that raised it."""
    for name in ("last_exc", "last_type", "last_value", "last_traceback"):
        vars(sys).pop(name, None)
    expected_failures.clear()


class Loop:
    """A pytest plugin that replaces the loop over all tests by a dialogue."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands = os.fdopen(commands, "r")
        self._answers = os.fdopen(answers, "w", buffering=1)

    def _answer(self, **fields: Any) -> None:
        self._answers.write(json.dumps(fields) + "\n")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        gc.enable()
        # test_mps.py::TestMPS::test_x → TestMPS::test_x
        items = {item.nodeid.split("::", 1)[1]: item for item in session.items}
        for item in session.items:
            item.repr_failure = _chain  # type: ignore[method-assign,assignment]
        self._answer(ids=list(items))
        told: set[int] = set()
        for line in self._commands:
            name = line.strip()
            # The simulator forgets the test before, in what it says and in what it does.
            for forget in (forget_raised_errors, forget_functions_run, restart_thread_orders):
                _ask(forget, None)
            began = time.process_time()
            print(f"--- {name}", flush=True)
            reports = runtestprotocol(items[name], nextitem=None, log=False)
            late = _late_failure()
            cpu_seconds = round(time.process_time() - began, 3)
            judgement = _judge(reports, expected_failures, sorted(_ask(raised_errors, dict[str, int]())))
            if late is not None and judgement["outcome"] in GOOD:
                judgement.update(outcome="failed", error=f"left behind on the GPU: {late}")
            del reports
            _let_go()
            entered = [offset for offset in _ask(functions_run, list[int]()) if offset not in told]
            told.update(entered)
            self._answer(
                id=name,
                worn_out=_resident_bytes() > WORN_OUT_BYTES,
                entered=entered,
                cpu_seconds=cpu_seconds,
                **judgement,
            )
        return True


def main() -> int:
    """Hands over to pytest, without the configuration of any project."""
    test_file, commands, answers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    # Until the tests are collected: of a million objects it would find none to be garbage, in a third of the start.
    gc.disable()
    _remember_expected_failure()
    # The file imports its neighbours.
    sys.path.insert(0, os.path.dirname(test_file))
    sys.argv = [test_file]
    return int(
        pytest.main(
            [test_file, "-c", os.devnull, "--rootdir", os.path.dirname(test_file)]
            # Upstream's tests seldom use bare assertions, and rewriting them takes a second.
            + ["--noconftest", "-p", "no:cacheprovider", "--assert=plain", "-q", "-q"],
            plugins=[Loop(commands, answers), frozen_objects],
        )
    )


if __name__ == "__main__":
    sys.exit(main())
