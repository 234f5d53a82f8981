"""Runs random programs (see README.md), shows how far it is and writes build/reports/state.json.

Exit status 1 if a program was wrong.
"""

import argparse
import os
import random
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from report import Report
from rich.console import Console

HERE = Path(__file__).resolve().parent
REPORTS = HERE.parents[2] / "build" / "reports"
sys.path.append(str(HERE.parents[1] / "programs"))
from json_worker import JsonWorker  # noqa: E402

PROGRESS_SECONDS = 15.0
# Programs of one process at most: traces stay for its life. Both are multiples of a batch.
MOST, LEAST = 2_500, 50
# Programs do not depend on the order of sets, and inductor starts no processes, which nothing here uses.
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "TORCHINDUCTOR_COMPILE_THREADS": "1"}


class Run:
    """The report so far, and the processes that add to it."""

    def __init__(self, options: argparse.Namespace, console: Console) -> None:
        self.options, self.console = options, console
        self.report = Report(options.seed, options.processes)
        self.size = min(MOST, -(-options.programs // (options.processes * LEAST)) * LEAST)
        self.lock = threading.Lock()
        self.began = self.told = time.monotonic()

    def work(self, first: int) -> None:
        """Checks the programs of a slice, in another process if one dies."""
        last = min(first + self.size, self.options.programs)
        while first < last:
            first = self.run_worker(first, last)

    def run_worker(self, first: int, last: int) -> int:
        """Returns the number of the first program that the process left undone."""
        order = {"seed": self.options.seed, "family": self.options.family, "first": first, "last": last}
        order |= {"shrink": not self.options.no_shrink}
        worker = JsonWorker(HERE / "worker.py", order, self.options.verbose, **_ENVIRONMENT)
        begin = first
        for line in worker.lines():
            with self.lock:
                if "reason" in line:
                    self.add_failure(line)
                else:
                    first = line["program"] + 1
                    self.report.count(line)
                    self.progress()
        status = worker.status
        if status == 1 and first == begin:
            raise SystemExit("a worker could not start; run with --verbose to see why")
        if status not in (0, 1) and first < last:
            with self.lock:
                self.report.count({"outcome": "wrong", "groups": [["family", self.options.family]], "error": ""})
                reason = f"the process ended with status {status}"
                self.add_failure({"program": first, "reason": reason, "pattern": [reason, str(first)], "steps": []})
            first += 1
        return first

    def add_failure(self, failure: dict[str, Any]) -> None:
        if self.report.add_failure(failure):
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
    with ThreadPoolExecutor(options.processes) as pool:
        list(pool.map(run.work, range(0, options.programs, run.size)))
    seconds = time.monotonic() - run.began
    run.report.write(options.report, seconds)
    console.print(f"{run.report.so_far()} in {seconds:.0f} s, --seed {options.seed}", highlight=False)
    totals = run.report.totals()
    raise SystemExit(1 if totals["wrong"] or not totals["equal"] else 0)


if __name__ == "__main__":
    main()
