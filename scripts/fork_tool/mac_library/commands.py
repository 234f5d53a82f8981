"""The command `wheel`: made of the official wheel, or compiled from source on a Mac."""

import re

import click

from fork_tool.common.errors import ForkToolError
from fork_tool.common.processes import exclusive
from fork_tool.mac_library.make import make_wheel, show_wheel_plan
from fork_tool.machine.machine import this_machine
from fork_tool.series.project import Project
from fork_tool.wheel import from_source as from_source_module


def _options(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    for value in values:
        if not re.fullmatch(r"[A-Z][A-Z0-9_]*=.*", value):
            raise click.BadParameter(f"{value!r} is not of the form NAME=VALUE, like USE_DISTRIBUTED=1.")
    return dict(value.split("=", 1) for value in values)


@click.command()
@click.option("--dry-run", is_flag=True, help="Show commands and environment; run and write nothing. Works everywhere.")
@click.option("--jobs", type=click.IntRange(min=1), help="Compilers at once [default: as many as fit in the memory].")
@click.option(
    "--set",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_options,
    help="With --from-source, tell setup.py this, over base.toml; may be given again.",
)
@click.option("--python", metavar="X.Y", help="The version of Python that the wheel is for [default: this one's].")
@click.option("--from-source", is_flag=True, help="Compile all of torch, on a Mac.")
@click.option("--no-device", is_flag=True, help="With --from-source, on a Mac without a GPU: check no capture.")
@click.pass_obj
def wheel(
    project: Project,
    dry_run: bool,
    jobs: int | None,
    options: dict[str, str],
    python: str | None,
    from_source: bool,
    no_device: bool,
) -> None:
    """Make torch's wheel for a Mac and check it; an interrupted run resumes."""
    if not from_source:
        if no_device:
            raise ForkToolError(
                "--no-device is for the check of --from-source: the other wheel is made and checked without a device anyway."
            )
        if options:
            raise ForkToolError("--set is for setup.py, which only --from-source runs: give both or neither.")
        if dry_run:
            show_wheel_plan(project, python, jobs)
            return
        with exclusive(project.layout):
            make_wheel(project, python, jobs)
        return
    if python is not None:
        raise ForkToolError(
            "--python is for the wheel that is made of the official one: --from-source takes the Python it runs on; "
            "`rm -r .venv`, then MPSFORK_PYTHON=/path/to/python in the environment, chooses that one."
        )
    if dry_run:
        from_source_module.show_plan(project, options, jobs, not no_device)
        return
    from_source_module.refuse_other_machines(this_machine())
    with exclusive(project.layout):
        from_source_module.build_wheel(project, options, jobs, not no_device)
