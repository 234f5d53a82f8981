"""The command `test-next`."""

import os

import click

from fork_tool.common.console import say
from fork_tool.common.processes import exclusive, run_shown
from fork_tool.machine.setup import setup
from fork_tool.next_base.make import CHOSEN, make_next, newest_base, show, TESTS
from fork_tool.series.project import Project


@click.command("test-next", context_settings={"ignore_unknown_options": True})
@click.option("--base", metavar="NAME", help="The folder of patches/releases/ [default: the newest release there].")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def test_next(project: Project, base: str | None, arguments: tuple[str, ...]) -> int:
    """Try the series on another release's wheels; arguments go to pytest."""
    with exclusive(project.layout):
        for done in setup(project):
            say(done)
    name = base or newest_base(project)
    show(make_next(project, name))
    command = [str(project.layout.python), "-m", "pytest", "-q", *(arguments or [TESTS])]
    return run_shown(command, project.layout.root, os.environ | {CHOSEN: name})
