"""Shows what the executable cache counts by operation and parameters: see README.md next to this file."""

from __future__ import annotations

import sys
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch  # noqa: E402
from demo.measure import on_simulator  # noqa: E402
from rich.console import Console  # noqa: E402

from graph_caching.cases import all_cases  # noqa: E402
from graph_caching.measure import measure, Result  # noqa: E402
from graph_caching.report import cases_table, heading, operations_table, write  # noqa: E402


def _unexpected(row: Result) -> bool:
    # a graph is compiled once, whoever comes first; replays look nothing up
    runs = row.eager.misses + row.eager.hits
    return row.eager.misses * row.calls != runs or row.captures.misses != 0 or row.eager.misses == 0


@click.command()
@click.option("--small", is_flag=True, help="The size for tests: fewer calls are timed.")
@click.option("--calls", default=10, show_default=True, type=click.IntRange(min=2), help="Eager calls per row.")
@click.option(
    "--repeats", default=None, type=click.IntRange(min=1), help="Calls to time per row.  [default: 200, small 5]"
)
@click.option(
    "--report",
    default="build/reports/graph_caching.json",
    show_default=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to keep the numbers.",
)
def main(small: bool, calls: int, repeats: int | None, report: Path) -> None:
    """Run matmul, convolution and attention without and with cached executables, and captured."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    if not torch.backends.mps.is_available():
        raise click.ClickException(
            "There is no MPS device here. On Linux run `scripts/mpsfork graph-caching`, which brings the simulated one."
        )
    simulated = on_simulator()
    torch.manual_seed(0)
    torch.mps.executable_cache_clear()
    results = [measure(case, calls, repeats or (5 if small else 200)) for case in all_cases()]
    operations = torch.mps.executable_cache_stats_by_operation()
    console.print(heading(simulated), style="bold")
    console.print(cases_table(results, simulated))
    console.print(operations_table(operations))
    write(results, operations, simulated, report)
    wrong = [f"{row.kind} {row.parameters}" for row in results if not row.equal or _unexpected(row)]
    if wrong:
        console.print(f"Other values than eager's, or compiled more than once: {'; '.join(wrong)}.", style="bold red")
        sys.exit(1)
    console.print(f"Each compiled once, all values those of eager. Numbers kept in {report}.", style="green")


if __name__ == "__main__":
    main()
