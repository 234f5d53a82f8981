"""Runs the sweep (see README.md), prints a table and writes build/reports/sweep.json.

Exit status 1 if a case was wrong, crashed, or was refused for a reason that the contract does not name. With
--no-replay, exit status 1 if a case was equal, or if no case could have been.
"""

import argparse
import os
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rich.console import Console
from sweep_report import finish, page

HERE = Path(__file__).resolve().parent
REPORTS = HERE.parents[2] / "build" / "reports"
sys.path.append(str(HERE.parent))
from json_worker import JsonWorker  # noqa: E402

OPERATORS_PER_WORKER = 12
# Of each operator and dtype, in a sample and in the sweep of states, which tries up to seven changes of each tensor.
MOST_SAMPLES = 10


class Sweep:
    """The operators still to do and the outcomes so far."""

    def __init__(self, options: argparse.Namespace, operators: list[str]) -> None:
        self.options = options
        self.console = Console()
        # a worker takes seconds to start, and that of a sample has little to do
        size = OPERATORS_PER_WORKER if options.sample == 1 else max(1, -(-len(operators) // options.jobs))
        self.finished = 0
        self.cases: list[dict[str, Any]] = []
        self.total = len(operators)
        self.batches = [operators[i : i + size] for i in range(0, len(operators), size)]
        self.lock = threading.Lock()

    def run(self, batch: list[str]) -> None:
        """Runs a worker, and another one for the operators that it did not finish because it died."""
        skip: set[str] = set()
        while batch:
            batch = self.run_batch(batch, skip)

    def run_batch(self, batch: list[str], skip: set[str]) -> list[str]:
        options = self.options
        order = {
            **{name: getattr(options, name) for name in ("sample", "seed", "link", "state", "dtypes")},
            "replay": not options.no_replay,
            "ops": batch,
            "most": MOST_SAMPLES if options.sample > 1 or options.state else None,
            "skip": sorted(skip),
        }
        worker = JsonWorker(HERE / "cases.py", order, options.verbose)
        rest, current = list(batch), None
        for line in worker.lines():
            if "begin" in line:
                current = line["begin"]
            elif "end" in line:
                skip.add(line["end"])
                current = None
            elif "done" in line:
                rest.remove(line["done"])
                self.progress(line["done"])
            else:
                with self.lock:
                    self.cases.append(line)
        status = worker.status
        if current:
            op, dtype, number = current.rsplit(" ", 2)
            skip.add(current)
            how = f"the process ended with status {status}"
            with self.lock:
                self.cases.append(
                    {"op": op, "dtype": dtype, "sample": int(number), "pass": "", "outcome": "crash", "reason": how}
                )
        elif status and rest:
            raise SystemExit(f"a worker could not start (status {status}); run with --verbose to see why")
        return rest

    def progress(self, operator: str) -> None:
        """Says how far the sweep is."""
        with self.lock:
            self.finished += 1
            if self.finished % 10 == 0 or self.finished == self.total:
                counts = Counter(case["outcome"] for case in self.cases)
                self.console.print(
                    f"{self.finished}/{self.total} operators: {counts['equal']} equal, "
                    f"{counts['raised'] + counts['refused']} raised, "
                    f"{counts['wrong']} {'different' if self.options.no_replay else 'wrong'}, "
                    f"{counts['crash']} crashed ({operator})",
                    highlight=False,
                )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="take one in N pairs of operator and dtype")
    parser.add_argument("--seed", type=int, default=0, help="which of the N samples of --sample N (default 0)")
    parser.add_argument("--no-replay", action="store_true", help="leave every replay out: no case may be equal then")
    parser.add_argument("--link", action="store_true", help="link the graph runs of each capture (link=True)")
    parser.add_argument("--state", action="store_true", help="change the metadata of inputs instead of their values")
    parser.add_argument("--dtype", action="append", dest="dtypes", help="only this dtype, like float32")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--op", action="append", help="only operators whose name contains this")
    parser.add_argument(
        "--report", type=Path, help="default build/reports/sweep.json, or sweep_state.json and the like"
    )
    parser.add_argument("--page", type=Path, help="write the outcome as a page for docs/, too")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    if options.page and options.state:
        parser.error("--page writes the sweep of values: leave out --state")
    kind = "_no_replay" if options.no_replay else "_linked" if options.link else ""
    kind = ("_state" if options.state else "") + kind
    options.report = options.report or REPORTS / f"sweep{kind}.json"
    options.report.parent.mkdir(parents=True, exist_ok=True)
    from cases import dtype_name, DTYPES, operator_name, taken
    from torch.testing._internal.common_methods_invocations import op_db

    options.dtypes = options.dtypes or [dtype_name(dtype) for dtype in DTYPES]
    dtypes = [dtype for dtype in DTYPES if dtype_name(dtype) in options.dtypes]
    wanted = (op for op in op_db if any(taken(op, dtype, options.sample, options.seed) for dtype in dtypes))
    names = list(dict.fromkeys(map(operator_name, wanted)))
    if options.op:
        names = [name for name in names if any(part in name for part in options.op)]
    sweep = Sweep(options, names)
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(sweep.run, sweep.batches))
    status = finish(sweep.cases, options.report, options.no_replay, options.state, sweep.console)
    if options.page:
        options.page.write_text(page(sweep.cases, options.sample, MOST_SAMPLES))
    raise SystemExit(status)


if __name__ == "__main__":
    main()
