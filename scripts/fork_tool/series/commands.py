"""The commands for the series: `apply`, `refresh`, `verify` and `export`."""

from __future__ import annotations

import re

import click
from rich.table import Table
from rich.text import Text

from fork_tool.base import fetch as fetch_module
from fork_tool.base.checkout import BRANCH, GHSTACK_BRANCH
from fork_tool.common.console import complain, hint, note, out, say
from fork_tool.common.errors import ForkToolError
from fork_tool.common.git import ADDRESS, AUTHOR
from fork_tool.common.processes import exclusive
from fork_tool.common.words import counted
from fork_tool.series import apply as apply_module
from fork_tool.series import export as export_module
from fork_tool.series import ghstack as ghstack_module
from fork_tool.series import refresh as refresh_module
from fork_tool.series import verify as verify_module
from fork_tool.series.project import Project


@click.command()
@click.option("--force", is_flag=True, help="Put commits aside that are on the branch and not in patches/.")
@click.pass_obj
def apply(project: Project, force: bool) -> None:
    """Apply the series to the checkout, one commit per entry."""
    with exclusive(project.layout):
        if not project.layout.checkout.exists():
            fetch_module.fetch(project)
        result = apply_module.apply_series(project, force)
    for offset in result.offsets:
        note(f"{offset}; look at the place, then `make refresh` writes it down")
    for layer in result.stack.layers:
        say(f"{layer.commit[:12]} {layer.entry.title}")
    place = project.layout.shown(project.layout.checkout)
    say(
        f"{counted(len(result.stack.layers), 'entries')} {'applied to' if result.changed else 'already applied:'} "
        f"the branch {BRANCH} in {place}."
    )


@click.command()
@click.option("--force", is_flag=True, help="Write the branch's state over edits of patches/ and overlay.")
@click.pass_obj
def refresh(project: Project, force: bool) -> None:
    """Take the branch's commits back into patches/ and aten_mps_overlay/."""
    with exclusive(project.layout):
        result = refresh_module.refresh_series(project, force)
    for sentence in result.notes:
        note(sentence)
    for path in result.written:
        say(f"wrote   {path}")
    for path in result.removed:
        say(f"removed {path}")
    changed = len(result.written) + len(result.removed)
    changes = counted(changed, "files") if changed else "no files"
    say(f"{counted(len(result.entries), 'entries')}; {changes} changed.")


_STYLES = {
    verify_module.APPLIES: "green",
    verify_module.FUZZ: "yellow",
    verify_module.NOT_CHECKED: "yellow",
}


@click.command()
@click.pass_obj
def verify(project: Project) -> None:
    """Check that every entry applies and keeps the rules."""
    result = verify_module.verify_series(project)
    table = Table("entry", "state", "hunks", "overlay files", "title")
    for verdict in result.verdicts:
        state = Text(verdict.state, style=_STYLES.get(verdict.state, "bold red"))
        table.add_row(Text(verdict.name), state, str(verdict.hunks), str(verdict.overlay), Text(verdict.title))
    out.print(table)
    problems = [
        f"{verdict.name}: {problem}" for verdict in result.verdicts for problem in verdict.problems
    ] + result.problems
    for problem in problems:
        complain(problem)
    for sentence in result.notes:
        note(sentence)
    for verdict in result.verdicts:
        if verdict.follows:
            note(f"{verdict.name} is not checked: it changes what follows the conflict of {verdict.follows}")
    if not result.good:
        raise ForkToolError(f"The series has {counted(len(problems), 'problems')}: see above.")
    say(f"All {len(result.verdicts)} entries apply and keep the rules.")


def _author(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[str, str]:
    if value is None:
        return AUTHOR, ADDRESS
    match = re.fullmatch(r"\s*([^<>\n]*[^<>\s])\s*<([^<>\s]+@[^<>\s]+)>\s*", value)
    if not match:
        raise click.BadParameter(f"{value!r} is not of the form 'Name <mail@example.org>'.")
    return match[1], match[2]


@click.command()
@click.option("--ghstack", is_flag=True, help=f"Leave the branch {GHSTACK_BRANCH} in the checkout instead of files.")
@click.option("--force", is_flag=True, help="With --ghstack: put aside a branch that was worked on.")
@click.option(
    "--author",
    metavar="'NAME <MAIL>'",
    callback=_author,
    help="Whose the commits are [default: this series', under an address that does not exist].",
)
@click.pass_obj
def export(project: Project, ghstack: bool, force: bool, author: tuple[str, str]) -> None:
    """Write the series as mails to build/export, or as a branch for ghstack."""
    layout = project.layout
    with exclusive(layout):
        if not ghstack:
            for path in export_module.export_series(project, author):
                say(layout.shown(path))
            # On standard error: the names alone are what scripts read.
            hint(f"{export_module.TAKEN_BY}  # in a clone of upstream; without --keep-non-patch git drops the [MPS]")
            return
        stack = ghstack_module.leave_branch(project, force, author)
    for layer in stack.layers:
        say(f"{layer.commit[:12]} {layer.entry.title}")
    shown = layout.shown(layout.checkout)
    say(
        f"{len(stack.layers)} commits on the branch {GHSTACK_BRANCH} in {shown}; docs/upstreaming.md says how they go on."
    )
    if stack.base != project.pin.commit:
        note(f"{shown} comes from the Debian tarball and has no history of upstream's; submit from a clone")
