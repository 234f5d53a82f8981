"""Packages of pinned versions in a folder of their own, next to the project's environment."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from fork_tool.common.console import say
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import is_filled, mark_filled, remove
from fork_tool.common.processes import run_shown
from fork_tool.series.project import Project

MODEL_REQUIREMENTS = "requirements-models.txt"
# What upstream checks its sources with.
TOOL_REQUIREMENTS = "test/upstream/checks/requirements.txt"
_PIP = ("-m", "pip", "install", "--disable-pip-version-check", "--quiet")


def install_model_libraries(project: Project) -> bool:
    """Bring the libraries of real models to their versions; false when they were there.

    Without dependencies: what the libraries share with the project, torch above all, is the project's.
    """
    layout = project.layout
    words = ("--no-deps", "--target", str(layout.model_packages), "--requirement", MODEL_REQUIREMENTS)
    return _bring(project, MODEL_REQUIREMENTS, layout.model_packages, [[str(layout.python), *_PIP, *words]])


def install_upstream_tools(project: Project) -> bool:
    """Bring upstream's tools to their versions, in an environment of their own; false when they were there.

    The versions are those of the base's time, and differ from those that check this repository.
    """
    environment = project.layout.upstream_checks / "environment"
    python = environment / "bin" / "python"
    if not python.exists():
        # The packages without an interpreter are no environment.
        remove(environment)
    make = [str(project.layout.python), "-m", "venv", str(environment)]
    return _bring(
        project, TOOL_REQUIREMENTS, environment, [make, [str(python), *_PIP, "--requirement", TOOL_REQUIREMENTS]]
    )


def _bring(project: Project, requirements: str, folder: Path, commands: Sequence[Sequence[str]]) -> bool:
    """Empty and fill a folder if its requirements or the interpreter have changed, without which nothing in it runs."""
    layout = project.layout
    wanted = ((layout.root / requirements).read_bytes(), sys.version)
    if is_filled(folder, wanted):
        return False
    remove(folder)
    say(f"installing {requirements} in {layout.shown(folder)}")
    for command in commands:
        if run_shown(command, layout.root):
            raise ForkToolError(
                f"{requirements} could not be installed (see above): check the network and the package index, then run this again."
            )
    mark_filled(folder, wanted)
    return True
