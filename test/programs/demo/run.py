"""Runs the demo: see README.md next to this file."""

from __future__ import annotations

import sys
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch  # noqa: E402
from rich.console import Console  # noqa: E402

from demo.cases import all_cases  # noqa: E402
from demo.measure import measure, on_simulator  # noqa: E402
from demo.report import heading, table, write  # noqa: E402


@click.command()
@click.option("--small", is_flag=True, help="The size for tests: fewer layers, passes and repeats.")
@click.option(
    "--repeats", default=None, type=click.IntRange(min=1), help="Passes to time per row.  [default: 30, small 5]"
)
@click.option(
    "--report",
    default="build/reports/demo.json",
    show_default=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to keep the numbers.",
)
def main(small: bool, repeats: int | None, report: Path) -> None:
    """Capture models on one input, replay them on others, and compare with eager."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    if not torch.backends.mps.is_available():
        raise click.ClickException(
            "There is no MPS device here. On Linux run `make demo`, which brings the simulated one."
        )
    simulated = on_simulator()
    results = []
    for case in all_cases(small):
        console.print(f"[dim]{case.name}: capture, replay, compare …[/dim]")
        results.append(measure(case, repeats or (5 if small else 30)))
    console.print(heading(simulated), style="bold")
    console.print(table(results, simulated))
    write(results, simulated, small, report)
    wrong = [row.name for row in results if not row.equal]
    if wrong:
        console.print(f"Replay and eager differ: {', '.join(wrong)}.", style="bold red")
        sys.exit(1)
    console.print(f"Every replay equals eager. Numbers kept in {report}.", style="green")


if __name__ == "__main__":
    main()
