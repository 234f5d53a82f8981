"""Runs PyTorch's own test/test_mps.py, unmodified, on the simulator.

Usage: python -m mps_simulator.run_test_mps [--macos 14.5] [--sample FILE] [--file test_nn.py] …

The tests run in worker processes of pytest-xdist, which worker.py judges them in. A worker that crashes or hangs
costs the test it was at, which counts as errored; another takes its place. The report is JSON: totals, and for each
test its outcome, the first line of its error, the selector that the simulator lacked, if that was the reason, and
what its validation refused meanwhile.

What is known not to go as on macOS is on a list, which a run must match exactly.
Of other files of upstream's than test_mps.py, the classes made for MPS are run; with --ported, the whole file as it is
ported by test/upstream/ported, whose list names skipped tests too.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mps_simulator._build import read_build, SimulatorError
from mps_simulator.remaining import (
    differences,
    GOOD,
    ListError,
    NOT_RUN,
    NOT_STARTED,
    of_file,
    read_list,
    Remaining,
    TOO_LARGE,
)
from mps_simulator.sample import read_sample, SampleError
from mps_simulator.touched import files_of, sources_for

OUTCOMES = ("passed", "failed", "errored", "skipped", "xfailed", "xpassed", NOT_STARTED)
MAIN_FILE = "test_mps.py"
DEFAULT_MACOS = "15.2"
LISTED_MACOS = (DEFAULT_MACOS, "14.5")
REPOSITORY = Path(__file__).resolve().parents[3]
REMAINING = Path(__file__).resolve().parents[1] / "tests" / "remaining_failures.txt"
PORTED = REPOSITORY / "test" / "upstream" / "ported"


@dataclass
class Result:
    """One line of the report."""

    id: str
    outcome: str
    error: str | None = None
    missing_selector: str | None = None
    violations: list[str] = field(default_factory=list)
    seconds: float = 0.0
    # Of all its threads, so that it tells how much work the test is on a busy machine too.
    cpu_seconds: float = 0.0


def worker_environment(file: str = MAIN_FILE, macos: str | None = None, ported: bool = False) -> dict[str, str]:
    """Returns the environment in which one of upstream's files can be run."""
    environment = dict(os.environ)
    environment["MPS_SIMULATOR"] = "1"
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    # Each worker keeps one core busy; more threads would compete for it.
    environment.setdefault("OMP_NUM_THREADS", "1")
    # The same last bits on every processor, wherever the memory lies: some tests depend on them.
    environment.setdefault("MKL_CBWR", "COMPATIBLE")
    if macos is not None:
        environment["MPS_SIMULATOR_MACOS"] = macos
    if file != MAIN_FILE and not ported:
        environment["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = "mps"
    commands = Path(__file__).resolve().parent / "commands"
    environment["PATH"] = f"{commands}{os.pathsep}{os.environ.get('PATH', '')}"
    return environment


def pytest_words(test_file: Path) -> list[str]:
    """Returns the arguments of pytest for one of upstream's files, without the configuration of any project."""
    return [
        *(str(test_file), "-c", os.devnull, "--rootdir", str(test_file.parent), "--noconftest", "-q"),
        # Upstream's tests seldom use bare assertions, and rewriting them takes a second.
        *("--assert=plain", "-p", "no:cacheprovider", "-p", "mps_simulator.frozen_objects"),
    ]


def _how_it_ended(process: Any) -> str:
    status = process.wait(timeout=30)
    if status < 0:
        return f"the process died of {signal.Signals(-status).name}"
    return f"the process exited with status {status}: it timed out, or the test ended it"


class Run:
    """A plugin of the pytest that directs the workers: keeps the results and shows the progress."""

    def __init__(self, options: argparse.Namespace, checkout: Path) -> None:
        self.options = options
        self.test_file = checkout / "test" / options.file
        self.remaining = self._read_remaining(options)
        if options.sample is not None:
            read_sample(options.sample)  # The workers read it again.
        self.problems: list[str] = []
        self.results: list[Result] = []
        self._started = time.monotonic()
        self._total = 0
        self._failure: str | None = None
        self._gone: list[str] = []
        # what of the backend's operations ran
        self._entered: set[int] = set()
        # Tests before which a worker ended because it was worn out.
        self._again: set[str] = set()

    @staticmethod
    def _read_remaining(options: argparse.Namespace) -> dict[str, Remaining] | None:
        version = options.macos or os.environ.get("MPS_SIMULATOR_MACOS") or DEFAULT_MACOS
        if options.remaining is None and version not in LISTED_MACOS:
            return None
        remaining = PORTED / "remaining_tests.txt" if options.ported else REMAINING
        entries = read_list(options.remaining or remaining, version)
        if options.further is not None:
            entries |= read_list(options.further, version)
        return of_file(entries, options.file)

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Shows nothing but what this class prints."""
        config.pluginmanager.unregister(name="terminalreporter")

    def pytest_configure_node(self, node: Any) -> None:
        """Tells a worker which tests to choose."""
        node.workerinput["choice"] = {
            "file": self.options.file,
            "only_mps": self.options.file != MAIN_FILE and not self.options.ported,
            "sample": str(self.options.sample) if self.options.sample is not None else None,
            "keyword": self.options.keyword,
            # The list is checked with each sample: what is on it must still fail.
            "listed": list(self.remaining or ()),
            "not_started": [
                test for test, entry in (self.remaining or {}).items() if entry.outcome in (TOO_LARGE, NOT_RUN)
            ],
        }

    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Notes how many tests there are."""
        self._total = len(ids)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Not one test can be run when the file cannot be read."""
        if report.failed:
            self._failure = f"the tests cannot be collected: {report.longreprtext}"

    def pytest_testnodedown(self, node: Any) -> None:
        """Takes what a worker says at its end."""
        output = getattr(node, "workeroutput", {})
        self._failure = self._failure or output.get("failure")
        self._gone = output.get("gone", self._gone)
        for test, line in output.get("not_started", {}).items():
            if self.remaining is not None and all(result.id != test for result in self.results):
                self.remaining[test] = self.remaining[line]
                self.results.append(Result(id=test, outcome=NOT_STARTED, error=self.remaining[line].cause))

    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport, sched: Any) -> None:
        """Gives a test to another worker, if its own ended before it."""
        if crashitem in self._again:
            self._again.remove(crashitem)
            report.user_properties.append(("again", True))
            sched.mark_test_pending(crashitem)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes a result."""
        said: dict[str, Any] = dict(report.user_properties)
        if "worn_out" in said:
            self._again.add(report.nodeid)
        if "worn_out" in said or "again" in said:
            return
        test = report.nodeid.split("::", 1)[1]
        if "result" in said:
            self._entered.update(said["entered"])
            self.results.append(Result(id=test, **said["result"]))
        elif report.when != "???":
            return  # of a subtest; xdist reports the end of a worker so
        else:
            error = _how_it_ended(report.node.gateway._io.popen)
            self.results.append(Result(id=test, outcome="errored", error=error))
        done = len(self.results)
        if sys.stdout.isatty() or done % 100 == 0 or done == self._total:
            totals = self.totals()
            counts = ", ".join(f"{totals[name]} {name}" for name in OUTCOMES)
            end = "\r" if sys.stdout.isatty() and done < self._total else "\n"
            print(f"[{done:5}/{self._total}] {counts} ", end=end, flush=True)

    def totals(self) -> dict[str, int]:
        """Returns the number of tests by outcome."""
        counts = Counter(result.outcome for result in self.results)
        return {name: counts[name] for name in OUTCOMES}

    def execute(self) -> int:
        """Runs everything, writes the report and returns the exit status."""
        os.environ.update(worker_environment(self.options.file, self.options.macos, self.options.ported))
        # The file imports its neighbours.
        sys.path[0] = str(self.test_file.parent)
        words = [
            *pytest_words(self.test_file),
            *("-n", str(self.options.jobs), "--max-worker-restart", "1000000", "-p", "mps_simulator.worker"),
            *("-o", f"faulthandler_timeout={self.options.timeout}", "-o", "faulthandler_exit_on_timeout=true"),
        ]
        if self.options.ported:
            sys.path.insert(1, str(PORTED))
            words += ["-p", "mps_ported"]
        ended = pytest.main(words, plugins=[self])
        if ended in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR):
            self._failure = self._failure or f"pytest ended with {ended!r}"
        self.results.sort(key=lambda result: result.id)
        if self.remaining is not None:
            good = ("passed", "xfailed") if self.options.ported else GOOD
            self.problems = differences(self.results, self.remaining, self._gone, good)
        if self.options.touches:
            wanted = sources_for(self.options.file, self.test_file.parents[1])
            touched = files_of(self._entered, read_build().link_map)
            self.problems += [f"no test ran code of {name}" for name in sorted(wanted - touched)]
        if self.results:
            self.write_report()
        if self._failure is not None:
            print(f"error: {self._failure}", file=sys.stderr)
            return 2
        return self.verdict()

    def listed(self) -> int:
        """Returns how many tests were run and failed in the way that the list says."""
        stated = self.remaining or {}
        wrong = {problem.partition(": ")[0] for problem in self.problems}
        bad = [result.id for result in self.results if result.outcome not in (*GOOD, NOT_STARTED)]
        return sum(test in stated and test not in wrong for test in bad)

    def write_report(self) -> None:
        """Writes the report in one step, so that no half one is ever seen."""
        report = {
            "file": self.options.file,
            "seconds": round(time.monotonic() - self._started),
            "totals": self.totals(),
            "listed": self.listed(),
            "problems": self.problems,
            "tests": [asdict(result) for result in self.results],
        }
        partial = self.options.report.with_suffix(".partial")
        partial.write_text(json.dumps(report, indent=1) + "\n")
        partial.replace(self.options.report)

    def verdict(self) -> int:
        """Says what came out: 0 if that is what was asked for."""
        totals = self.totals()
        counted = len(self.results) - totals["skipped"] - totals[NOT_STARTED]
        good = totals["passed"] + totals["xfailed"]
        share = 100.0 * good / counted if counted else 0.0
        print(
            f"{good} of {counted} tests went as PyTorch expects {'with CUDA' if self.options.ported else 'on macOS'} "
            f"({share:.1f} %), "
            f"{totals['skipped']} skipped, {totals[NOT_STARTED]} not started; report: {self.options.report}"
        )
        missing = Counter(r.missing_selector for r in self.results if r.missing_selector)
        for selector, count in missing.most_common(10):
            print(f"  {count:4} × not simulated: {selector}")
        refused = [r for r in self.results if r.violations and r.outcome in GOOD]
        if refused:
            print(f"  {len(refused)} tests went as expected although the simulator's validation refused something")
        if self.remaining is None:
            print("there is no list of remaining failures for this version of macOS")
            bad = [result for result in self.results if result.outcome not in GOOD]
            self.problems += [f"{result.id}: {result.outcome}: {result.error}" for result in bad]
        else:
            print(f"{self.listed()} of the list of remaining failures failed as it says")
        for problem in self.problems:
            print(problem, file=sys.stderr)
        return 1 if self.problems or not self.results else 0


def main(checkout: Path | None = None) -> int:
    """Parses the command line and runs the tests, of the build's checkout unless it is another one's."""
    parser = argparse.ArgumentParser(
        prog="python -m mps_simulator.run_test_mps",
        description="Runs PyTorch's test/test_mps.py on the simulator.",
    )
    parser.add_argument("--file", default=MAIN_FILE, help=f"another of upstream's test files (default {MAIN_FILE})")
    parser.add_argument("--macos", help=f"the version of macOS to simulate (default {DEFAULT_MACOS})")
    parser.add_argument(
        "--remaining", type=Path, help="the list of tests that fail (default tests/remaining_failures.txt)"
    )
    parser.add_argument("--ported", action="store_true", help="port the file to MPS first (test/upstream/ported)")
    parser.add_argument("--further", type=Path, help="a list of more failing tests, which takes precedence")
    parser.add_argument("--sample", type=Path, help="the tests to run, as a rule (sample.py)")
    parser.add_argument("--touches", action="store_true", help="fail if a source of the backend ran no code")
    parser.add_argument("-k", dest="keyword", help="only tests whose id matches this expression")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes (default 2)")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for one test (default 600)")
    parser.add_argument("--report", type=Path, help="default build/reports/FILE_VERSION.json")
    options = parser.parse_args()
    if options.report is None:
        version = options.macos or os.environ.get("MPS_SIMULATOR_MACOS") or DEFAULT_MACOS
        name = options.file.removesuffix(".py").replace("/", "_")
        options.report = REPOSITORY / "build" / "reports" / f"{name}_{version}.json"
    options.report = options.report.resolve()
    options.report.parent.mkdir(parents=True, exist_ok=True)
    try:
        return Run(options, checkout or read_build().checkout).execute()
    except (ListError, SampleError, SimulatorError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
