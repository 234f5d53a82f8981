"""The command `mutants`."""

from __future__ import annotations

from pathlib import Path

import click

from fork_tool.series.project import Project
from fork_tool.suites.mutants import run as mutants_module


@click.command()
@click.option("--mutant", "names", multiple=True, metavar="NAME", help="Only this one; may be given again.")
@click.option("--resume", is_flag=True, help="Leave out what the last report has of the same sources.")
@click.option("--list", "listed", is_flag=True, help="Show all mutants, and run none.")
@click.option("--report", type=click.Path(path_type=Path), metavar="FILE", help="[default: build/reports/mutants.json]")
@click.option(
    "--page", type=click.Path(path_type=Path), metavar="FILE", help="[default: docs/results/mutants.md, of a whole run]"
)
@click.pass_obj
def mutants(
    project: Project, names: tuple[str, ...], resume: bool, listed: bool, report: Path | None, page: Path | None
) -> int:
    """Plant small faults one at a time and see which suite notices (Linux)."""
    if listed:
        mutants_module.show_list(mutants_module.choose(project, names))
        return 0
    verdicts = mutants_module.run_mutants(project, names, resume, report, page)
    mutants_module.show(verdicts)
    return 0 if all(verdict.good for verdict in verdicts) else 1
