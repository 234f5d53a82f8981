"""The command `wheel`: made of the official wheel."""

import click

from fork_tool.common.processes import exclusive
from fork_tool.mac_library.make import make_wheel
from fork_tool.series.project import Project


@click.command()
@click.option("--jobs", type=click.IntRange(min=1), help="Compilers at once [default: the number of cores].")
@click.option("--python", metavar="X.Y", help="Python version of the wheel [default: the version of this tool].")
@click.pass_obj
def wheel(project: Project, jobs: int | None, python: str | None) -> None:
    """Make torch's wheel for a Mac and check it; an interrupted run resumes."""
    with exclusive(project.layout):
        make_wheel(project, python, jobs)
