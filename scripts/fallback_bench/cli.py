"""The command line: `bench`, `sync` and `percentage`."""

import importlib
import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from fallback_bench.github import API, GitHub
from fallback_bench.sync import ISSUES, known_operators
from fallback_bench.sync import sync as run_sync
from fallback_bench.targets import load, OWN_FILE, Target, Targets
from fork_tool.common.console import count_progress, note, say
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import write_atomically
from fork_tool.common.help import run_command_line

RUN = Path(__file__).with_name("run.py")
REPORTS = Path(__file__).resolve().parents[2] / "build" / "reports" / "fallback"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Measure what it costs that operators fall back from MPS to the CPU."""


_FILE = click.option(
    "--targets",
    "path",
    default=OWN_FILE,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The list of operators and requests.  [default: the one beside this program]",
)


@cli.command()
@_FILE
@click.option(
    "--operator", "names", multiple=True, metavar="NAME", help="Only this operator (linalg_qr); may be given again."
)
@click.option("--dtype", "dtypes", multiple=True, metavar="NAME", help="Only this dtype (float32); may be given again.")
@click.option("--quick", is_flag=True, help="Only the first dtype and shape of each operator.")
@click.option("--seconds", default=0.5, show_default=True, type=click.FloatRange(0.0), help="Time for each median.")
@click.option("--timeout", default=120.0, show_default=True, type=click.FloatRange(1.0), help="Longest time for a row.")
@click.option(
    "--out",
    default=REPORTS,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the CSV files and report.md.  [default: build/reports/fallback]",
)
def bench(
    path: Path, names: tuple[str, ...], dtypes: tuple[str, ...], quick: bool, seconds: float, timeout: float, out: Path
) -> None:
    """Measure the targets; writes a CSV file for each operator and a report."""
    targets = load(path)
    chosen = _choose(targets, names)
    # These import torch, which takes its time.
    from fallback_bench.bench import Bench, Cell, cells_of
    from fallback_bench.report import markdown
    from fallback_bench.rows import Row, summarize, write_csv
    from fallback_bench.workers import Worker

    grids = {target.operator: cells_of(target.operator, dtypes, quick) for target in chosen}
    grids = {name: cells for name, cells in grids.items() if cells}
    if not grids:
        raise ForkToolError("There is nothing to measure: none of these operators has a case with these dtypes.")
    rows: list[Row] = []
    free, bound = Worker(True, timeout), Worker(False, timeout)
    try:
        measuring = Bench(free, bound, seconds)
        say(measuring.device.heading, style="bold")
        with count_progress() as progress:
            task = progress.add_task("", total=sum(map(len, grids.values())))

            def begin(cell: Cell) -> None:
                progress.update(task, description=f"{cell[0]} {cell[1]} {'×'.join(map(str, cell[2]))}")

            for cells in grids.values():
                own = []
                for row in measuring.rows(cells, begin):
                    own.append(row)
                    progress.advance(task)
                write_csv(out, own)
                rows += own
                say(_line(own))
        device = measuring.device
    finally:
        free.close()
        bound.close()
    summaries = summarize(chosen, rows)
    left = [target for target in chosen if not cells_of(target.operator)]
    write_atomically(out / "report.md", markdown(device, targets, summaries, left).encode())
    unmeasured = sum(1 for row in rows if row.penalty is None)
    if unmeasured:
        note(f"{unmeasured} of {len(rows)} rows could not be measured; the report says why")
    say(f"measured {len(rows)} {'row' if len(rows) == 1 else 'rows'}: {out / 'report.md'}")


@cli.command()
@_FILE
@click.option("--issue", "issues", multiple=True, type=int, help="A tracking issue.  [default: 77764 and 141287]")
@click.option("--api", default=API, hidden=True)
def sync(path: Path, issues: tuple[int, ...], api: str) -> None:
    """Bring the requests up to date with the tracking issues; needs GH_TOKEN."""
    token = (os.environ.get("GH_TOKEN") or os.environ.get("GITHUB_TOKEN") or "").strip()
    if not token:
        raise ForkToolError(
            "There is no GH_TOKEN or GITHUB_TOKEN in the environment: make a token at github.com/settings/tokens "
            "(it needs no rights, the issues are public), `export GH_TOKEN=…`, then run this again."
        )
    outcome = run_sync(GitHub(token, api), path, known_operators(), issues or ISSUES)
    say(f"read {outcome.comments} comments, {outcome.asking} of which ask for operators")
    for word, operators in (("new", outcome.new), ("no longer asked for", outcome.gone)):
        if operators:
            say(f"{word}: {', '.join(operators)}")
    if outcome.unknown:
        note(f"this torch does not know {', '.join(outcome.unknown)}: left out")
    say(f"wrote {path}")


@cli.command()
@click.argument("what", metavar="MODULE:FUNCTION")
@click.option("--timed", is_flag=True, help="Also report the share of time: wait for the device after each operator.")
@click.option("--here", is_flag=True, hidden=True)
def percentage(what: str, timed: bool, here: bool) -> None:
    """Call a function once and say how many of its operators fell back; MODULE may be a file."""
    from fallback_bench.workers import child_environment

    if not here:
        # torch decides at its import whether operators may fall back, and here it may have been imported.
        command = [sys.executable, str(RUN), "percentage", what, "--here", *(["--timed"] if timed else [])]
        sys.exit(subprocess.run(command, env=child_environment(True), check=False).returncode)
    from fallback_bench.device import this_device
    from fallback_bench.percentage import fallback_share

    call = _function(what)
    import torch

    if not torch.backends.mps.is_available():
        raise ForkToolError(
            "There is no MPS device here; on Linux run `scripts/mpsfork fallback-bench` first, which brings one."
        )
    share = fallback_share(call, timed=timed)
    torch.mps.synchronize()
    device = this_device()
    say(device.heading, style="bold")
    say(f"{share.fell_back} of {share.operators} operators fell back: {share.percentage:.1f} %")
    if timed:
        say(f"{'(simulated) ' if device.simulated else ''}{share.time_percentage:.1f} % of the time")
    for operator, count in share.by_operator.most_common():
        say(f"  {operator}: {count}")


def _choose(targets: Targets, names: tuple[str, ...]) -> list[Target]:
    if not names:
        return targets.by_demand
    wanted = [f"aten::{name.removeprefix('aten::').split('.')[0]}" for name in names]
    known = {target.operator: target for target in targets.targets}
    strange = [name for name in wanted if name not in known]
    if strange:
        raise ForkToolError(
            f"{', '.join(strange)} is not in the list of targets: put it there with the link to a request."
        )
    return [known[name] for name in dict.fromkeys(wanted)]


def _line(rows: list[Any]) -> str:
    worst = max((row.penalty for row in rows if row.penalty is not None), default=None)
    verdicts = ", ".join(dict.fromkeys(row.verdict or "not checked" for row in rows))
    shown = "not measured" if worst is None else f"up to {worst:.3g}× the CPU's time"
    return f"{rows[0].operator}: {verdicts}; {shown}"


def _function(what: str) -> Callable[[], Any]:
    module, _, name = what.rpartition(":")
    if not module or not name:
        raise ForkToolError(f"{what!r} is no MODULE:FUNCTION, like fallback_bench.example:gaussian_process.")
    try:
        if module.endswith(".py"):
            names = runpy.run_path(module, run_name=Path(module).stem)
        else:
            sys.path.insert(0, os.getcwd())
            names = vars(importlib.import_module(module))
    except (ImportError, OSError) as problem:
        raise ForkToolError(f"{module} can't be imported: {problem}.") from None
    call = names.get(name)
    if not callable(call):
        raise ForkToolError(f"{module} has no function {name}.")
    return call  # type: ignore[no-any-return]


def main() -> None:
    run_command_line(cli, "fallback_bench", "Stopped; the files that are complete stay.")
