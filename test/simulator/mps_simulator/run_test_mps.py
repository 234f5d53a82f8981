"""Runs PyTorch's own test/test_mps.py, unmodified, on the simulator.

Usage: python -m mps_simulator.run_test_mps [--macos 14.5] [--sample FILE] [--file test_nn.py] …

Each test runs in one of a few worker processes. A worker that crashes or hangs
costs the test it was at, which counts as errored; another takes its place. The
report is JSON: totals, and for each test its outcome, the first line of its
error, the selector that the simulator lacked, if that was the reason, and what
its validation refused meanwhile.

What is known not to go as on macOS is on a list, which a run must match exactly.
Of other files of upstream's than test_mps.py, the classes made for MPS are run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

from mps_simulator._build import read_build, SimulatorError
from mps_simulator.remaining import (
    differences,
    GOOD,
    ListError,
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
START_TIMEOUT = 300.0
LISTED_MACOS = (DEFAULT_MACOS, "14.5")
REPOSITORY = Path(__file__).resolve().parents[3]
REMAINING = Path(__file__).resolve().parents[1] / "tests" / "remaining_failures.txt"


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


class WorkerDied(Exception):
    """The worker is gone or was stopped; the message says how."""


class Worker:
    """A process that has collected the tests and runs those that it is sent."""

    def __init__(self, test_file: Path, log: TextIO, environment: dict[str, str]) -> None:
        command_end, write_end = os.pipe()
        self._command = os.fdopen(write_end, "w", buffering=1)
        answer_end, self._answer = os.pipe()
        os.set_inheritable(self._answer, True)
        self._answers = os.fdopen(answer_end, "rb", buffering=0)
        self._buffer = b""
        self.process = subprocess.Popen(
            [
                # By its path: upstream's operator database walks the stack, and for the frames of `-m`, which have no
                # file, inspect looks through all modules each time: three quarters of a run.
                sys.executable,
                "-P",
                str(Path(__file__).with_name("worker.py")),
                str(test_file),
                str(command_end),
                str(self._answer),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            cwd=Path(log.name).parent,
            pass_fds=(command_end, self._answer),
            start_new_session=True,
        )
        os.close(command_end)
        os.close(self._answer)
        self.ids: list[str] = self.receive(START_TIMEOUT)["ids"]

    def send(self, test: str) -> None:
        """Asks for a test to be run."""
        try:
            self._command.write(test + "\n")
        except OSError:
            raise WorkerDied(self._how_it_ended()) from None

    def receive(self, timeout: float) -> dict[str, Any]:
        """Waits for the next answer."""
        deadline = time.monotonic() + timeout
        while b"\n" not in self._buffer:
            remaining = deadline - time.monotonic()
            if remaining <= 0 or not select.select([self._answers], [], [], remaining)[0]:
                self.stop()
                raise WorkerDied(f"timed out after {timeout:.0f} s")
            chunk = self._answers.read(65536)
            if not chunk:
                raise WorkerDied(self._how_it_ended())
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _how_it_ended(self) -> str:
        try:
            status = self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.stop()
            return "the process stopped answering"
        if status < 0:
            return f"the process died of {signal.Signals(-status).name}"
        return f"the process exited with status {status}"

    def stop(self) -> None:
        """Ends the process and whatever it started."""
        if self.process.poll() is None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        for end in (self._command, self._answers):
            try:
                end.close()
            except OSError:
                pass


def worker_environment(file: str = MAIN_FILE, macos: str | None = None) -> dict[str, str]:
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
    if file != MAIN_FILE:
        environment["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = "mps"
    commands = Path(__file__).resolve().parent / "commands"
    environment["PATH"] = f"{commands}{os.pathsep}{os.environ.get('PATH', '')}"
    return environment


class Run:
    """The tests still to do, the results so far and the progress line."""

    def __init__(self, options: argparse.Namespace, checkout: Path) -> None:
        self.options = options
        self.test_file = checkout / "test" / options.file
        self.remaining = self._read_remaining(options)
        self.sample = read_sample(options.sample) if options.sample is not None else None
        self.problems: list[str] = []
        self.results: list[Result] = []
        self._started = time.monotonic()
        self._ids: frozenset[str] = frozenset()
        self._todo: deque[str] | None = None
        self._total = 0
        self._lock = threading.Lock()
        self._failure: str | None = None
        # what of the backend's operations ran
        self._entered: set[int] = set()
        self._workers: dict[int, Worker] = {}
        # A line as soon as a test is done, so that progress shows and an interrupted run leaves its results.
        self._diary = options.report.with_suffix(".jsonl").open("w", buffering=1)
        self.environment = worker_environment(options.file, options.macos)

    @staticmethod
    def _read_remaining(options: argparse.Namespace) -> dict[str, Remaining] | None:
        version = options.macos or os.environ.get("MPS_SIMULATOR_MACOS") or DEFAULT_MACOS
        if options.remaining is None and version not in LISTED_MACOS:
            return None
        entries = read_list(options.remaining or REMAINING, version)
        if options.further is not None:
            entries |= read_list(options.further, version)
        return of_file(entries, options.file)

    def _choose(self, collected: list[str]) -> None:
        with self._lock:
            if self._todo is not None:
                return
            ids = collected
            if self.options.file != MAIN_FILE:
                ids = [test for test in ids if test.partition("::")[0].endswith("MPS")]
            self._ids = frozenset(ids)
            chosen = ids
            if self.sample is not None:
                try:
                    wanted = self.sample.choose(self.options.file, ids)
                except SampleError as error:
                    self._failure = str(error)
                    wanted = []
                # The list is checked with each sample: what is on it must still fail.
                listed = [test for test in self.remaining or () if test in self._ids]
                chosen = list(dict.fromkeys(wanted + listed)) if wanted else []
            if self.options.keyword is not None:
                pattern = re.compile(self.options.keyword)
                chosen = [test for test in chosen if pattern.search(test)]
            # In random order, so that the progress line soon shows how the whole run will end.
            self._todo = deque(random.Random(0).sample(chosen, len(chosen)))
            self._total = len(chosen)

    def _next(self) -> str | None:
        while True:
            with self._lock:
                test = self._todo.popleft() if self._todo else None
            entry = (self.remaining or {}).get(test) if test is not None else None
            if test is None or entry is None or entry.outcome != TOO_LARGE:
                return test
            self._record(Result(id=test, outcome=NOT_STARTED, error=entry.cause))

    def _record(self, result: Result) -> None:
        with self._lock:
            self.results.append(result)
            self._diary.write(json.dumps(asdict(result)) + "\n")
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

    def serve(self, number: int) -> None:
        """Keeps one worker busy until nothing is left to do."""
        path = self.options.report.parent / f"{self.options.report.stem}_worker_{number}.log"
        worker: Worker | None = None
        with path.open("w") as log:
            try:
                while self._failure is None:
                    if worker is None:
                        worker = Worker(self.test_file, log, self.environment)
                        self._workers[number] = worker
                        self._choose(worker.ids)
                    test = self._next()
                    if test is None:
                        break
                    started = time.monotonic()
                    try:
                        worker.send(test)
                        answer = worker.receive(self.options.timeout)
                        self._entered.update(answer.pop("entered"))
                        if answer.pop("worn_out"):
                            worker.stop()
                        result = Result(**answer)
                    except WorkerDied as death:
                        result = Result(id=test, outcome="errored", error=str(death))
                    result.seconds = round(time.monotonic() - started, 2)
                    self._record(result)
                    if worker.process.poll() is not None:
                        worker.stop()
                        worker = None
            except WorkerDied as death:
                # Not one test could be run, so neither can the next.
                self._failure = f"{death} while it collected the tests: see {path}"
            finally:
                if worker is not None:
                    worker.stop()

    def execute(self) -> int:
        """Runs everything, writes the report and returns the exit status."""
        threads = [
            threading.Thread(target=self.serve, args=(number,), daemon=True) for number in range(self.options.jobs)
        ]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except KeyboardInterrupt:
            self._failure = "interrupted"
            for worker in list(self._workers.values()):
                worker.stop()
        if self._failure is not None:
            print(f"error: {self._failure}", file=sys.stderr)
            return 2
        self.results.sort(key=lambda result: result.id)
        if self.remaining is not None:
            self.problems = differences(self.results, self.remaining, self._ids)
        if self.options.touches:
            wanted = sources_for(self.options.file, self.test_file.parents[1])
            touched = files_of(self._entered, read_build().link_map)
            self.problems += [f"no test ran code of {name}" for name in sorted(wanted - touched)]
        self.write_report()
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
            f"{good} of {counted} tests went as PyTorch expects on macOS ({share:.1f} %), "
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


def main() -> int:
    """Parses the command line and runs the tests."""
    parser = argparse.ArgumentParser(
        prog="python -m mps_simulator.run_test_mps",
        description="Runs PyTorch's test/test_mps.py on the simulator.",
    )
    parser.add_argument("--file", default=MAIN_FILE, help=f"another of upstream's test files (default {MAIN_FILE})")
    parser.add_argument("--macos", help=f"the version of macOS to simulate (default {DEFAULT_MACOS})")
    parser.add_argument(
        "--remaining", type=Path, help="the list of tests that fail (default tests/remaining_failures.txt)"
    )
    parser.add_argument("--further", type=Path, help="a list of more tests that fail, whose lines count before those")
    parser.add_argument("--sample", type=Path, help="the tests to run: a rule, or a list of them (sample.py)")
    parser.add_argument("--touches", action="store_true", help="fail if no code of one of the backend's sources ran")
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
        build = read_build()
    except SimulatorError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    try:
        run = Run(options, build.checkout)
    except (ListError, SampleError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return run.execute()


if __name__ == "__main__":
    sys.exit(main())
