"""The commands that look at other bases and move the series there."""

from __future__ import annotations

import click

from fork_tool import rebase as rebase_module
from fork_tool.console import say
from fork_tool.errors import ForkToolError
from fork_tool.lock import exclusive
from fork_tool.project import Project


@click.command()
@click.option("--onto", metavar="REF", help="A tag, branch or commit, of the checkout or of upstream.")
@click.option("--continue", "goes_on", is_flag=True, help="Take the resolution of a conflict, and go on.")
@click.option("--skip", is_flag=True, help="Drop the entry that conflicts from the series, and go on.")
@click.option("--abort", is_flag=True, help="Give up: all is as before.")
@click.pass_obj
def rebase(project: Project, onto: str | None, goes_on: bool, skip: bool, abort: bool) -> None:
    """Move the series to another base: base.toml, patches/ and the checkout follow when every entry has been moved."""
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
