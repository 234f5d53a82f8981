"""Runs the benchmark: see README.md next to this file.

With ``--device cuda`` it needs nothing but torch and numpy, so that it can be run where nothing of this repository is
installed; what else it uses it imports only where it is asked for.
"""

import argparse
import os
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmark import configurations as configurations_module  # noqa: E402
from benchmark import devices as devices_module  # noqa: E402
from benchmark.measure import Row, run  # noqa: E402
from benchmark.modes import DIRECT, EAGER  # noqa: E402
from benchmark.protocol import TRIALS  # noqa: E402
from benchmark.report import heading, write  # noqa: E402

REPORT = Path("build/reports/bench.json")
# Of a run of some, which does not replace that of all.
SOME_REPORT = REPORT.with_name("bench_some.json")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run.py", description="Measure configurations, eager and replayed.")
    parser.add_argument("--device", choices=("mps", "cuda"), default=os.environ.get("DEVICE") or "mps")
    parser.add_argument("--quick", action="store_true", help="ten configurations and three trials")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="run this configuration; may be given again"
    )
    parser.add_argument("--list", action="store_true", help="list the configurations and run none")
    parser.add_argument("--trials", type=int, metavar="N", help=f"default: {TRIALS}, 3 with --quick")
    parser.add_argument("--no-replay", action="store_true", help="leave the replays out: the comparison must fail")
    parser.add_argument(
        "--goals", action="store_true", help="also measure the goals, as a full run on the simulator does"
    )
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help=f"default: {REPORT}; {SOME_REPORT} with --quick or --only"
    )
    parser.add_argument("--page", type=Path, metavar="FILE", help="also write a page and its pictures")
    parser.add_argument("--from-report", action="store_true", help="run nothing: write the page from the report")
    arguments = parser.parse_args()
    if arguments.from_report and not arguments.page:
        parser.error("--from-report needs --page")
    return arguments


def _one(
    configuration: configurations_module.Configuration, device: devices_module.Device, trials: int, left_out: bool
) -> Row:
    try:
        return run(configuration, device, trials, left_out)
    except Exception as problem:  # the others are measured all the same, and this one makes the run fail
        traceback.print_exc()
        reason = f"{type(problem).__name__}: {problem}".split("\n")[0]
        return Row(configuration.name, configuration.category, reason=f"failed: {reason}")


def _said(row: Row) -> str:
    if row.reason or row.wrong:
        return row.reason or f"DIFFERS: {', '.join(f'{name} {row.modes[name].reason}' for name in row.wrong)}"
    eager, direct = (row.modes[name].seconds for name in (EAGER, DIRECT))
    if not eager or not direct:
        return "nothing was timed"
    return f"CPU {eager * 1e3:.2f} → {direct * 1e3:.3f} ms"


def _write_pages(page: Path, report: Path) -> int:
    from benchmark.page import write_pages  # needs matplotlib, which a run on CUDA does without

    write_pages(page, report)
    return 0


def main() -> int:
    """Measure, report, and return 1 if a replay differs from eager or a configuration failed."""
    arguments = _arguments()
    path = arguments.report or (SOME_REPORT if arguments.quick or arguments.only else REPORT)
    if arguments.from_report:
        return _write_pages(arguments.page, path)
    try:
        chosen = configurations_module.choose(configurations_module.load(), tuple(arguments.only), arguments.quick)
        if arguments.list:
            for one in chosen:
                print(f"{one.name:28} {one.category}")
            return 0
        device = devices_module.find(arguments.device)
    except (RuntimeError, ValueError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    trials = arguments.trials or (3 if arguments.quick else TRIALS)
    print(heading(device), flush=True)
    rows = []
    for number, one in enumerate(chosen, 1):
        print(f"[{number:3}/{len(chosen)}] {one.name:26} ", end="", flush=True)
        begin = time.monotonic()
        row = _one(one, device, trials, arguments.no_replay)
        rows.append(row)
        device.give_back()
        print(f"{_said(row)}  ({time.monotonic() - begin:.1f} s)", flush=True)
        write(path, rows, device, trials)
    goals = []
    if arguments.goals or not (arguments.quick or arguments.only):
        from benchmark.goals import measure_all

        goals = measure_all(rows, device)
        write(path, rows, device, trials, goals)
    if arguments.page:
        _write_pages(arguments.page, path)
    bad = [row.name for row in rows if row.wrong or row.reason.startswith("failed")]
    if bad:
        print(f"Failed, or a replay differs from eager: {', '.join(bad)}.", file=sys.stderr)
        return 1
    print(f"Every replay equals eager. Numbers kept in {path}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
