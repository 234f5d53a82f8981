"""The commands that look at other bases and move the series there."""

from __future__ import annotations

from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from fork_tool.common.console import out, say
from fork_tool.common.errors import ForkToolError
from fork_tool.common.processes import exclusive
from fork_tool.rebase import drift as drift_module
from fork_tool.rebase import run as rebase_module
from fork_tool.rebase.carried import Moved
from fork_tool.rebase.worktree import show_clashes
from fork_tool.series.project import Project


@click.command()
@click.option("--onto", metavar="REF", help="A tag, branch or commit, of the checkout or of upstream.")
@click.option("--continue", "goes_on", is_flag=True, help="Take the resolution of a conflict, and go on.")
@click.option("--skip", is_flag=True, help="Drop the entry that conflicts from the series, and go on.")
@click.option("--abort", is_flag=True, help="Give up, and restore what was there before.")
@click.pass_obj
def rebase(project: Project, onto: str | None, goes_on: bool, skip: bool, abort: bool) -> None:
    """Move the series to another base; files change once all entries have moved."""
    if [onto is not None, goes_on, skip, abort].count(True) != 1:
        raise ForkToolError("Give one of --onto REF, --continue, --skip and --abort.")
    layout = project.layout
    with exclusive(layout):
        if abort:
            state = rebase_module.abort(project)
            say(f"The series is as it was, on {state.base[:12]}; nothing of {state.asked} is left.")
            return
        written = rebase_module.start(project, onto) if onto is not None else rebase_module.go_on(project, skip)
    if written is None:
        say(f"The series stands on {onto} already.")
        return
    for path in written.written:
        say(f"wrote   {path}")
    for path in written.removed:
        say(f"removed {path}")
    project.forget_pin()
    say(
        f"The series stands on {project.pin.tag} ({project.pin.commit[:12]}); `make verify` and the tests say whether it holds."
    )


_STYLES = {drift_module.FITS: "green", drift_module.MOVES: "green", drift_module.NOT_CHECKED: "yellow"}
_STYLES |= {drift_module.PARTLY: "cyan", drift_module.TAKEN: "cyan", drift_module.CONFLICT: "bold red"}


@click.command()
@click.option(
    "--against", metavar="REF", required=True, help="A tag, branch or commit, of the checkout or of upstream."
)
@click.option("--report", type=click.Path(path_type=Path), metavar="FILE", help="[default: build/reports/drift.json]")
@click.pass_obj
def drift(project: Project, against: str, report: Path | None) -> None:
    """Report which entries apply to another base; changes nothing."""
    layout = project.layout
    with exclusive(layout):
        found = drift_module.find_drift(project, against)
    table = Table("entry", "state", "hunks", "moved", "dropped")
    for entry in found.entries:
        table.add_row(
            Text(entry.name),
            Text(entry.state, style=_STYLES[entry.state]),
            str(entry.hunks),
            _distance(entry.carried.moved),
            str(len(entry.carried.gone) or ""),
        )
    out.print(table)
    for entry in found.entries:
        for sentence in [*entry.carried.renamed, *entry.carried.gone]:
            say(f"{entry.name}: {sentence}")
        if entry.follows:
            say(f"{entry.name}: not checked, since it changes what the conflict of {entry.follows} left open")
        show_clashes(entry.name, found.target.name, entry.clashes)
    path = report or layout.reports / "drift.json"
    found.write(path)
    say(f"The report is {layout.shown(path)}.")
    conflicts, open_ones = found.names(drift_module.CONFLICT), found.names(drift_module.NOT_CHECKED)
    shown = f"{found.target.name} ({found.target.commit[:12]})"
    if conflicts:
        behind = f"; {len(open_ones)} behind them not checked" if open_ones else ""
        raise ForkToolError(
            f"{', '.join(conflicts)} {'does' if len(conflicts) == 1 else 'do'} not fit {shown}{behind}: "
            f"`scripts/mpsfork rebase --onto {against}` stops there for a resolution."
        )
    say(f"All {len(found.entries)} entries fit {shown}, or are there.")


def _distance(moved: list[Moved]) -> str:
    if not moved:
        return ""
    most = max((hunk.lines for hunk in moved), key=abs)
    return f"{len(moved)}, by {'' if len(moved) == 1 else 'up to '}{most:+d}"
