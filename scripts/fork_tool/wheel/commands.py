"""The command `release-notes`; `wheel` is in mac_library/, whose wheel it makes unless told otherwise."""

from __future__ import annotations

import click

from fork_tool.common.console import say
from fork_tool.series.project import Project
from fork_tool.wheel.release_notes import write_release_notes


@click.command("release-notes")
@click.pass_obj
def release_notes(project: Project) -> None:
    """Write the release notes of base.toml's version to build/reports."""
    path = write_release_notes(project)
    say(f"The notes of {project.pin.version} are in {project.layout.shown(path)}.")
