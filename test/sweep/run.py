"""Runs the sweep (see README.md), prints a table and writes build/reports/sweep.json.

Exit status 1 if a case was wrong, crashed, or was refused for a reason that the contract does not name.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import textwrap
import threading
from collections import Counter, deque
from datetime import date
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
REPORT = HERE.parents[1] / "build" / "reports" / "sweep.json"
TIMEOUT = 300.0  # seconds without a line from a worker
OPERATORS_PER_WORKER = 6
# Of each operator and dtype that a sample takes.
MOST_SAMPLES = 10


class Sweep:
    """The operators still to do and the outcomes so far."""

    def __init__(self, options: argparse.Namespace, operators: list[str]) -> None:
        self.options = options
        self.console = Console()
        # a worker that has little to do of each operator gets more of them: it takes seconds to start
        size = OPERATORS_PER_WORKER * min(options.sample, 20)
        self.finished: list[str] = []
        self.unsupported = 0
        self.cases: list[dict[str, Any]] = []
        self.total = len(operators)
        if options.resume:
            operators = self.take_up(operators)
        self.batches = deque(operators[i : i + size] for i in range(0, len(operators), size))
        self.lock = threading.Lock()

    def take_up(self, operators: list[str]) -> list[str]:
        """Takes over what a run that was cut off has done; returns the operators that are left."""
        if not self.options.report.with_suffix(".part").exists():
            return operators
        part = json.loads(self.options.report.with_suffix(".part").read_text())
        self.finished, self.unsupported = part["finished"], part["unsupported"]
        self.cases = [case for case in part["cases"] if case["op"] in self.finished]
        return [name for name in operators if name not in self.finished]

    def save(self) -> None:
        """Keeps what is done, for --resume. With the lock held."""
        part = {"finished": self.finished, "unsupported": self.unsupported, "cases": self.cases}
        path = self.options.report.with_suffix(".part")
        new = path.with_suffix(".new")
        new.write_text(json.dumps(part))
        new.replace(path)

    def work(self) -> None:
        """Takes batches until there are none."""
        while True:
            with self.lock:
                if not self.batches:
                    return
                batch = self.batches.popleft()
            skip: set[str] = set()
            while batch:
                batch = self.run_batch(batch, skip)

    def run_batch(self, batch: list[str], skip: set[str]) -> list[str]:
        """Runs one worker and returns the operators that it did not finish because it died."""
        worker = subprocess.Popen(
            [sys.executable, str(HERE / "cases.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if self.options.verbose else subprocess.DEVNULL,
            text=True,
            env={**os.environ, "MPS_SIMULATOR": os.environ.get("MPS_SIMULATOR", "1")},
        )
        assert worker.stdin and worker.stdout
        every = self.options.sample
        order = {
            "ops": batch,
            "every": every,
            "first": date.today().toordinal() % every if self.options.rotate else 0,
            "most": MOST_SAMPLES if every > 1 else None,
            "skip": sorted(skip),
        }
        json.dump(order, worker.stdin)
        worker.stdin.close()
        rest, current = list(batch), None
        timer = threading.Timer(TIMEOUT, worker.kill)
        timer.start()
        for text in worker.stdout:
            timer.cancel()
            timer = threading.Timer(TIMEOUT, worker.kill)
            timer.start()
            line = json.loads(text)
            if "begin" in line:
                current = line["begin"]
            elif "done" in line:
                rest.remove(line["done"])
                current = None
                self.progress(line["done"])
            else:
                if current:
                    skip.add(current)
                current = None
                with self.lock:
                    if "skip" in line:
                        self.unsupported += 1
                    else:
                        self.cases.append(line)
        timer.cancel()
        status = worker.wait()
        if current:
            op, dtype, number = current.rsplit(" ", 2)
            skip.add(current)
            how = f"the process ended with status {status}"
            with self.lock:
                self.cases.append({"op": op, "dtype": dtype, "sample": int(number), "outcome": "crash", "reason": how})
        elif status and rest:
            raise SystemExit(f"a worker could not start (status {status}); run with --verbose to see why")
        return rest

    def progress(self, operator: str) -> None:
        """Says how far the sweep is."""
        with self.lock:
            self.finished.append(operator)
            if len(self.finished) % 10 == 0 or len(self.finished) == self.total:
                self.save()
                counts = Counter(case["outcome"] for case in self.cases)
                self.console.print(
                    f"{len(self.finished)}/{self.total} operators: {counts['equal']} equal, {counts['refused']} refused, "
                    f"{counts['wrong']} wrong, {counts['crash']} crashed ({operator})",
                    highlight=False,
                )


def report(sweep: Sweep) -> int:
    """Writes and prints; returns the exit status."""
    sweep.cases.sort(key=lambda case: (case["op"], case["dtype"], case["sample"]))
    counts = Counter(case["outcome"] for case in sweep.cases)
    totals = {name: counts[name] for name in ("equal", "refused", "wrong", "crash")}
    sweep.options.report.write_text(json.dumps({"totals": totals, "cases": sweep.cases}, indent=1) + "\n")
    sweep.options.report.with_suffix(".part").unlink(missing_ok=True)
    table = Table("outcome", "reason", "cases", "operators")
    groups: dict[tuple[str, str], list[str]] = {}
    for case in sweep.cases:
        groups.setdefault((case["outcome"], case["reason"]), []).append(case["op"])
    for (outcome, reason), operators in sorted(groups.items()):
        names = sorted(set(operators))
        shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
        table.add_row(outcome, reason[:120], str(len(operators)), str(len(names)) if outcome == "equal" else shown)
    sweep.console.print(table)
    sweep.console.print(f"{totals}, {sweep.unsupported} not supported by eager", highlight=False)
    strange = [c for c in sweep.cases if c["outcome"] == "refused" and c["reason"].startswith("other")]
    return 1 if totals["wrong"] or totals["crash"] or strange else 0


def page(cases: list[dict[str, Any]], unsupported: int) -> str:
    """The table for docs/sweep.md."""
    groups: dict[tuple[str, str], list[str]] = {}
    for case in cases:
        groups.setdefault((case["outcome"], case["reason"]), []).append(case["op"])
    lines = [
        "# The sweep, as it came out",
        "",
        "Written by `make sweep PAGE=docs/sweep.md`; [what it does](../test/sweep/README.md). SIMULATED: on the Metal simulator,",
        f"torch {torch.__version__.split('+')[0]}, macOS 15.2. {len(cases):,} cases of {len({case['op'] for case in cases})} operators;"
        f" {unsupported:,} more that eager does not run.",
        "",
        "| outcome | reason | cases | operators |",
        "|---|---|---|---|",
    ]
    for (outcome, reason), operators in sorted(groups.items()):
        lines.append(f"| {outcome} | {reason} | {len(operators):,} | {len(set(operators))} |")
    for outcome in ("wrong", "crash"):
        if not any(group[0] == outcome for group in groups):
            lines.append(f"| {outcome} | | 0 | 0 |")
    for (outcome, reason), operators in sorted(groups.items()):
        if outcome != "equal":
            names = ", ".join(f"`{name}`" for name in sorted(set(operators)))
            lines += ["", f"## {outcome}: {reason}", "", names + "."]
    return "\n".join(textwrap.fill(line, 120) if line[:1] == "`" else line for line in lines) + "\n"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--sample",
        type=int,
        default=1,
        metavar="N",
        help="take every Nth pair of operator and dtype, and few of its samples",
    )
    parser.add_argument("--rotate", action="store_true", help="begin with another pair each day")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--op", action="append", help="only operators whose name contains this")
    parser.add_argument("--report", type=Path, default=REPORT)
    parser.add_argument("--resume", action="store_true", help="go on where a run that was cut off has stopped")
    parser.add_argument("--page", type=Path, help="write the outcome as a page for docs/, too")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    options.report.parent.mkdir(parents=True, exist_ok=True)
    from cases import operator_name
    from torch.testing._internal.common_methods_invocations import op_db

    names = list(dict.fromkeys(operator_name(op) for op in op_db))
    if options.op:
        names = [name for name in names if any(part in name for part in options.op)]
    sweep = Sweep(options, names)
    threads = [threading.Thread(target=sweep.work) for _ in range(options.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    status = report(sweep)
    if options.page:
        options.page.write_text(page(sweep.cases, sweep.unsupported))
    raise SystemExit(status)


if __name__ == "__main__":
    main()
