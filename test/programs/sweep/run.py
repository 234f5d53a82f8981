"""Runs the sweep (see README.md), prints a table and writes build/reports/sweep.json.

Exit status 1 if a case was wrong, crashed, or was refused for a reason that the contract does not name. With
--no-replay, exit status 1 if a case was equal, or if no case could have been.
"""

import argparse
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from sweep_report import explain, finish, read_cases, write, write_compiled, write_report

HERE = Path(__file__).resolve().parent
REPORTS = HERE.parents[2] / "build" / "reports"
# Of operators and dtypes: a process keeps the graphs of all that it has run.
PAIRS_PER_PROCESS = 120
# Of each operator and dtype, in a sample and in the sweep of states, which tries up to seven changes of each tensor.
MOST_SAMPLES = 10
# What `--compiled` runs without --dtype.
COMPILED_DTYPES = ("float32", "float16", "int64")
# Seconds for a pair, after which its process ends.
LONGEST = 1200


class Outcomes:
    """What the processes found, as a plugin of pytest: of each pair, or how its process died."""

    def __init__(self, options: argparse.Namespace, pairs: list[tuple[str, str]], console: Console) -> None:
        self.no_replay, self.console = options.no_replay, console
        self.cases: list[dict[str, Any]] = read_cases(options.report) if options.resume else []
        known = {(case["op"], case["dtype"]) for case in self.cases}
        pairs[:] = [pair for pair in pairs if pair not in known]
        self.left = {f"{op}-{dtype}": (op, dtype) for op, dtype in pairs}
        self.total = len(pairs)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and not report.failed:
            return
        op, dtype = self.left.pop(report.nodeid.partition("[")[2][:-1])
        self.cases += [found for _, found in report.user_properties]
        if report.failed:
            crash = {"sample": -1, "pass": "", "outcome": "crash", "reason": str(report.longrepr).splitlines()[-1]}
            self.cases.append({"op": op, "dtype": dtype, **crash})
        finished = self.total - len(self.left)
        if finished % 100 == 0 or not self.left:
            counts = Counter(case["outcome"] for case in self.cases)
            self.console.print(
                f"{finished}/{self.total} operators and dtypes: {counts['equal']} equal, "
                f"{counts['raised'] + counts['refused']} raised, "
                f"{counts['wrong']} {'different' if self.no_replay else 'wrong'}, {counts['crash']} crashed ({op})",
                highlight=False,
            )


def run(options: argparse.Namespace, pairs: list[tuple[str, str]], console: Console) -> list[dict[str, Any]]:
    """The outcomes of all pairs, in several processes, and in new ones after so many pairs."""
    outcomes = Outcomes(options, pairs, console)
    order = {
        "replay": not options.no_replay,
        "state": options.state,
        "compiled": options.compiled,
        "most": options.samples or (MOST_SAMPLES if options.sample > 1 or options.state or options.compiled else None),
    }
    words = ["-n", str(options.jobs), "-c", "/dev/null", "--rootdir", str(HERE), "-p", "no:cacheprovider"]
    words += ["-o", f"faulthandler_timeout={LONGEST}", "-o", "faulthandler_exit_on_timeout=true"]
    words += [] if options.verbose else ["-p", "no:terminal"]
    size = PAIRS_PER_PROCESS * options.jobs
    for start in range(0, len(pairs), size):
        os.environ["SWEEP_ORDER"] = json.dumps({**order, "pairs": pairs[start : start + size]})
        pytest.main([*words, str(HERE / "sweep_processes.py")], plugins=[outcomes])
        write_report(outcomes.cases, options.report)
    if outcomes.left:
        raise SystemExit(f"{len(outcomes.left)} operators and dtypes were not run; run with --verbose to see why")
    return outcomes.cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="take one in N pairs of operator and dtype")
    parser.add_argument("--seed", type=int, default=0, help="which of the N samples of --sample N (default 0)")
    parser.add_argument("--no-replay", action="store_true", help="leave the replays out; fail if a case is equal")
    parser.add_argument("--state", action="store_true", help="change the metadata of inputs instead of their values")
    parser.add_argument("--compiled", action="store_true", help="compile instead, with inputs in four layouts")
    parser.add_argument("--samples", type=int, metavar="N", help="at most N samples of each operator and dtype")
    parser.add_argument("--dtype", action="append", dest="dtypes", help="only this dtype, like float32")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--op", action="append", help="only operators whose name contains this")
    parser.add_argument(
        "--report", type=Path, help="default build/reports/sweep.json, or sweep_state.json and the like"
    )
    parser.add_argument("--page", type=Path, help="also write the outcome as a page for docs/")
    parser.add_argument("--resume", action="store_true", help="keep what the report of an unfinished run has")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    if options.page and options.state:
        parser.error("--page writes the sweep of values: leave out --state")
    kind = ("_compiled" if options.compiled else "_state" if options.state else "") + (
        "_no_replay" if options.no_replay else ""
    )
    options.report = options.report or REPORTS / f"sweep{kind}.json"
    options.report.parent.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("MPS_SIMULATOR", "1")
    from cases import dtype_name, DTYPES, OPERATORS, taken

    pairs = [
        (name, dtype_name(dtype))
        for name, op in OPERATORS.items()
        for dtype in DTYPES
        if dtype_name(dtype) in (options.dtypes or (COMPILED_DTYPES if options.compiled else map(dtype_name, DTYPES)))
        and any(part in name for part in options.op or [""])
        and taken(op, dtype, options.sample, options.seed)
    ]
    console = Console()
    cases = run(options, pairs, console)
    unmet = explain(cases)
    status = finish(cases, options.report, options.no_replay, options.state, console)
    if options.compiled and options.sample == 1 and not options.op and not options.dtypes:
        for cause in unmet:
            console.print(f"no case has this cause: {cause}", style="red", highlight=False)
        status = status or bool(unmet)
    if options.page:
        write_it = write_compiled if options.compiled else write
        write_it(options.page, cases, options.sample, options.samples or MOST_SAMPLES)
    raise SystemExit(status)


if __name__ == "__main__":
    main()
