"""The commands for this machine: `doctor` and `setup`."""

from __future__ import annotations

import click
from rich.table import Table
from rich.text import Text

from fork_tool.common.console import out, say
from fork_tool.common.errors import ForkToolError
from fork_tool.common.processes import exclusive
from fork_tool.machine import doctor as doctor_module
from fork_tool.machine import setup as setup_module
from fork_tool.machine.machine import LACKS, LATER, OK
from fork_tool.series.project import Project

_STATES = {OK: "green", LATER: "yellow", LACKS: "bold red"}


@click.command()
@click.pass_obj
def doctor(project: Project) -> None:
    """Show missing prerequisites and how to install them."""
    findings = doctor_module.examine(project)
    table = Table("what", "state", "found", "how to fix it")
    for finding in findings:
        table.add_row(
            finding.name, Text(finding.state, style=_STATES[finding.state]), Text(finding.detail), Text(finding.remedy)
        )
    out.print(table)
    lacking = [finding.name for finding in findings if finding.state == LACKS]
    if lacking:
        raise ForkToolError(f"This machine lacks {', '.join(lacking)}: the last column says how to fix it.")
    say("Nothing is lacking.")


@click.command()
@click.pass_obj
def setup(project: Project) -> None:
    """Install missing packages and ObjFW, and make .venv."""
    with exclusive(project.layout):
        for done in setup_module.setup(project):
            say(done)
    say("This machine has all that is needed.")
