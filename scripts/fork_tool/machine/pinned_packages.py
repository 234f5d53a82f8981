"""Packages of pinned versions in a folder of their own, next to the project's environment."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from fork_tool.common.console import say
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import remove, write_atomically
from fork_tool.common.processes import run_shown
from fork_tool.series.project import Project

MODEL_REQUIREMENTS = "requirements-models.txt"
# What upstream checks its sources with.
TOOL_REQUIREMENTS = "test/upstream/checks/requirements.txt"
_STAMP = ".mpsfork-requirements"
_PIP = ("-m", "pip", "install", "--disable-pip-version-check", "--quiet")


def install_model_libraries(project: Project) -> bool:
    """Bring the libraries of real models to their versions; false when they were there.

    Without dependencies: what the libraries share with the project, torch above all, is the project's.
    """
    layout, what = project.layout, "the libraries of real models"
    words = ("--no-deps", "--target", str(layout.model_packages), "--requirement", MODEL_REQUIREMENTS)
    command = [str(layout.python), *_PIP, *words]
    return keep_up_to_date(project, MODEL_REQUIREMENTS, layout.model_packages, what, [command])


def install_upstream_tools(project: Project) -> bool:
    """Bring upstream's tools to their versions, in an environment of their own; false when they were there.

    The versions are those of the base's time, and differ from those that check this repository.
    """
    environment = project.layout.upstream_checks / "environment"
    python = environment / "bin" / "python"
    commands = [
        [str(project.layout.python), "-m", "venv", str(environment)],
        [str(python), *_PIP, "--requirement", TOOL_REQUIREMENTS],
    ]
    return keep_up_to_date(project, TOOL_REQUIREMENTS, environment, "upstream's tools", commands, python.exists)


def keep_up_to_date(
    project: Project,
    requirements: str,
    folder: Path,
    what: str,
    commands: Iterable[Sequence[str]],
    is_there: Callable[[], bool] = lambda: True,
) -> bool:
    """Empty and fill a folder when its requirements, or the interpreter, have changed; false when they have not."""
    layout = project.layout
    stamp = folder / _STAMP
    # Which interpreter made it: once that one is removed, nothing in the folder runs.
    digest = hashlib.sha256((layout.root / requirements).read_bytes() + sys.version.encode()).hexdigest()
    if stamp.is_file() and stamp.read_text() == digest and is_there():
        return False
    remove(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    say(f"installing {what} in {layout.shown(folder)}")
    for command in commands:
        if run_shown(command, layout.root):
            raise ForkToolError(
                f"{what} could not be installed (see above): check the network and the package index, then run this again."
            )
    write_atomically(stamp, digest.encode())
    return True
