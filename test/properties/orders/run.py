"""Runs random programs (see README.md), shows how far it is and writes build/reports/state.json.

Exit status 1 if a program was wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

from batches import BATCH, seed_of
from report import Report
from rich.console import Console

HERE = Path(__file__).resolve().parent
REPORTS = HERE.parents[2] / "build" / "reports"
TIMEOUT = 300.0  # seconds without a line from a worker, which a program that is shrunk may take
MOST_FAILURES = 30
PROGRESS_SECONDS = 15.0
# Programs do not depend on the order of sets, and inductor starts no processes, which nothing here uses.
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "TORCHINDUCTOR_COMPILE_THREADS": "1"}


class Run:
    """The batches still to do and the report so far."""

    def __init__(self, options: argparse.Namespace, console: Console) -> None:
        self.options, self.console = options, console
        self.report = Report(options.seed, options.processes)
        self.batches = deque(range(-(-options.programs // BATCH)))
        self.lock = threading.Lock()
        self.began = self.told = time.monotonic()

    def work(self) -> None:
        """Gives batches to a worker, and to another one if it dies."""
        worker = None
        while True:
            with self.lock:
                if not self.batches:
                    break
                batch = self.batches.popleft()
            first, crashed = 0, 0
            while True:
                worker = worker or self.start()
                died = self.run_batch(worker, batch, first, crashed)
                if died is None:
                    worker = worker if worker.poll() is None else None
                    break
                worker, (first, crashed) = None, died
        if worker is not None:
            assert worker.stdin
            worker.stdin.close()
            worker.wait()

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(HERE / "worker.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if self.options.verbose else subprocess.DEVNULL,
            text=True,
            env={**os.environ, **_ENVIRONMENT, "MPS_SIMULATOR": os.environ.get("MPS_SIMULATOR", "1")},
        )

    def run_batch(self, worker: subprocess.Popen[str], batch: int, first: int, crashed: int) -> tuple[int, int] | None:
        """Returns the number to go on with in another worker and the status, if this one died."""
        assert worker.stdin and worker.stdout
        count = min(BATCH, self.options.programs - batch * BATCH)
        with self.lock:
            order = {
                "seed": seed_of(self.options.seed, batch),
                "count": count,
                "family": self.options.family,
                "first": first,
                "crashed": crashed if crashed != 1 else 0,
                "known": [failure["pattern"] for failure in self.report.failures],
                "shrink": not self.options.no_shrink and len(self.report.failures) < self.options.failures,
            }
        next_one, ended = first, False
        try:
            print(json.dumps(order), file=worker.stdin, flush=True)
        except BrokenPipeError:
            pass
        timer = self.kill_later(worker)
        for text in worker.stdout:
            timer.cancel()
            line = json.loads(text)
            if "end" in line:
                ended = True
                if line["last"]:
                    worker.wait()
                break
            timer = self.kill_later(worker)
            with self.lock:
                if "done" in line:
                    next_one = line["done"] + 1
                    self.report.count(line)
                    self.progress()
                else:
                    self.add_failure(line | {"program": batch * BATCH + line.pop("failure")})
        timer.cancel()
        if ended:
            return None
        status = worker.wait()
        if status == 1 and next_one == first:
            raise SystemExit("a worker could not start; run with --verbose to see why")
        if status != 1 and next_one < count:
            with self.lock:
                self.report.count(
                    {"outcome": "wrong", "family": self.options.family, "error": "", "entries": [], "kinds": []}
                )
            next_one += 1
        return next_one, status

    def kill_later(self, worker: subprocess.Popen[str]) -> threading.Timer:
        timer = threading.Timer(TIMEOUT, worker.kill)
        timer.daemon = True
        timer.start()
        return timer

    def add_failure(self, failure: dict[str, Any]) -> None:
        if self.report.add_failure(failure) and len(self.report.failures) <= self.options.failures:
            self.console.print(f"program {failure['program']}: {failure['reason']}", style="red", highlight=False)
            for step in failure["steps"]:
                self.console.print(f"    {step}", highlight=False, markup=False)

    def progress(self) -> None:
        now = time.monotonic()
        if now - self.told > PROGRESS_SECONDS:
            self.told = now
            self.console.print(f"{self.report.so_far()} ({now - self.began:.0f} s)", highlight=False)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=10_000, help="how many (default 10,000)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="default: the number of cores")
    parser.add_argument("--seed", type=int, help="draw the programs of this seed (default: a new one)")
    parser.add_argument(
        "--failures", type=int, default=MOST_FAILURES, help=f"shrink so many at most (default {MOST_FAILURES})"
    )
    parser.add_argument("--family", choices=("both", "order of use", "state"), default="both", help="draw these only")
    parser.add_argument("--no-shrink", action="store_true", help="count what is wrong, and shrink nothing")
    parser.add_argument("--report", type=Path, default=REPORTS / "state.json")
    parser.add_argument("--verbose", action="store_true", help="show what the processes write to stderr")
    options = parser.parse_args()
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1 << 31)
    console = Console()
    console.print(f"{options.programs} programs, --seed {options.seed}", highlight=False)
    run = Run(options, console)
    threads = [threading.Thread(target=run.work) for _ in range(options.processes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - run.began
    run.report.write(options.report, seconds)
    console.print(f"{run.report.so_far()} in {seconds:.0f} s, --seed {options.seed}", highlight=False)
    raise SystemExit(1 if run.report.totals["wrong"] or not run.report.totals["equal"] else 0)


if __name__ == "__main__":
    main()
