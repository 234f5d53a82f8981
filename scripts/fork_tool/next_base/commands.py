"""The command `test-next`."""

from __future__ import annotations

import click

from fork_tool.next_base import run as next_module
from fork_tool.series.project import Project


@click.command("test-next", context_settings={"ignore_unknown_options": True})
@click.option("--base", metavar="NAME", help="The folder of patches/releases/ [default: the newest release there].")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def test_next(project: Project, base: str | None, arguments: tuple[str, ...]) -> int:
    """Try the series on another release's wheels; arguments go to pytest."""
    return next_module.run_next(project, base, arguments)
