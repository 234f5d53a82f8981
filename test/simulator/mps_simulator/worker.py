"""What run_test_mps does in its worker processes: chooses the tests, and judges each by more than pytest knows."""

from __future__ import annotations

import gc
import inspect
import os
import random
import re
import resource
import sys
import threading
import time
import traceback
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

import pytest
from _pytest.runner import runtestprotocol
from _pytest.unittest import TestCaseFunction

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
from mps_simulator.sample import read_sample, SampleError

# What the simulator says of an operation, or of a data type, that it lacks.
LACKING = re.compile(r"MPS simulator: (?:(.+?) is not simulated|(.+))")
# A worker that has grown this large ends before its next test, and another takes its place.
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


class Judge:
    """The plugin of a worker."""

    def __init__(self, config: Any) -> None:
        self._choice: dict[str, Any] = config.workerinput["choice"]
        self._output: dict[str, Any] = config.workeroutput
        self._told: set[int] = set()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leaves the chosen tests, in random order, so that the progress soon shows how the whole run will end."""
        # test_mps.py::TestMPS::test_x → TestMPS::test_x
        by_id = {item.nodeid.split("::", 1)[1]: item for item in items}
        ids = [test for test in by_id if not self._choice["only_mps"] or test.partition("::")[0].endswith("MPS")]
        listed = [test for test in self._choice["listed"] if test in by_id]
        chosen = ids
        if self._choice["sample"] is not None:
            try:
                wanted = read_sample(Path(self._choice["sample"])).choose(self._choice["file"], ids)
                chosen = list(dict.fromkeys(wanted + listed))
            except SampleError as error:
                self._output["failure"] = str(error)
                chosen = []
        if self._choice["keyword"] is not None:
            chosen = [test for test in chosen if re.search(self._choice["keyword"], test)]
        not_started = {test: line for line in self._choice["not_started"] for test in ids if fnmatchcase(test, line)}
        self._output["gone"] = sorted(set(self._choice["listed"]) - set(ids) - set(not_started.values()))
        self._output["not_started"] = {test: line for test, line in not_started.items() if test in chosen}
        chosen = [test for test in chosen if test not in not_started]
        items[:] = [by_id[test] for test in random.Random(0).sample(chosen, len(chosen))]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Prepares the tests to be run."""
        gc.enable()
        for item in session.items:
            item.repr_failure = _chain  # type: ignore[method-assign,assignment]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool:
        """Runs a test in place of pytest, and reports once."""

        def say(**properties: Any) -> None:
            told = list(properties.items())
            report = pytest.TestReport(item.nodeid, item.location, {}, "passed", None, "call", user_properties=told)
            item.ihook.pytest_runtest_logreport(report=report)

        if _resident_bytes() > WORN_OUT_BYTES:
            say(worn_out=True)
            os._exit(0)
        # The simulator forgets the test before, in what it says and in what it does.
        for forget in (forget_raised_errors, forget_functions_run, restart_thread_orders):
            _ask(forget, None)
        started, began = time.monotonic(), time.process_time()
        reports = runtestprotocol(item, nextitem=None, log=False)
        late = _late_failure()
        used = {"cpu_seconds": round(time.process_time() - began, 3), "seconds": round(time.monotonic() - started, 2)}
        judgement = _judge(reports, expected_failures, sorted(_ask(raised_errors, dict[str, int]())))
        if late is not None and judgement["outcome"] in GOOD:
            judgement.update(outcome="failed", error=f"left behind on the GPU: {late}")
        del reports
        _let_go()
        entered = [offset for offset in _ask(functions_run, list[int]()) if offset not in self._told]
        self._told.update(entered)
        say(entered=entered, result={**judgement, **used})
        return True


def pytest_configure(config: pytest.Config) -> None:
    """Makes a worker of this process, unless it directs them."""
    if hasattr(config, "workerinput"):
        # Until the tests are collected: of a million objects it would find none to be garbage, in a third of the start.
        gc.disable()
        _remember_expected_failure()
        # Upstream's operator database walks the stack, and for a frame without a file, of which execnet has some, inspect
        # would look through all modules each time: three quarters of a run.
        inspect.modulesbyfile["<string>"] = "__main__"
        config.pluginmanager.register(Judge(config))
