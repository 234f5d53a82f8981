"""Packages of pinned versions in a folder of their own, next to the project's environment."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path

from fork_tool.common.console import say
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import remove, write_atomically
from fork_tool.common.processes import run_shown
from fork_tool.series.project import Project

MODEL_REQUIREMENTS = "requirements-models.txt"
# What upstream checks its sources with.
TOOL_REQUIREMENTS = "test/upstream/checks/requirements.txt"
_TOOLS = "upstream's tools"
_STAMP = ".mpsfork-requirements"
_PIP = ("-m", "pip", "install", "--disable-pip-version-check", "--quiet")


def install_model_libraries(project: Project) -> bool:
    """Bring the libraries of real models to their versions; false when they were there.

    Without dependencies: what the libraries share with the project, torch above all, is the project's.
    """
    folder = project.layout.model_packages

    def install() -> None:
        words = ("--no-deps", "--target", str(folder), "--requirement", MODEL_REQUIREMENTS)
        run_or_raise(project, [str(project.layout.python), *_PIP, *words], "the libraries of real models")

    return keep_up_to_date(project, MODEL_REQUIREMENTS, folder, "the libraries of real models", install)


def install_into(project: Project, python: Path, requirements: str, what: str) -> None:
    """Install requirements with an interpreter's pip."""
    run_or_raise(project, [str(python), *_PIP, "--requirement", requirements], what)


def keep_up_to_date(
    project: Project,
    requirements: str,
    folder: Path,
    what: str,
    install: Callable[[], None],
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
    install()
    write_atomically(stamp, digest.encode())
    return True


def run_or_raise(project: Project, command: list[str], what: str) -> None:
    """Print a command and run it; a failure is most likely the network's."""
    if run_shown(command, project.layout.root):
        raise ForkToolError(
            f"{what} could not be installed (see above): check the network and the package index, then run this again."
        )


def install_upstream_tools(project: Project) -> bool:
    """Bring upstream's tools to their versions, in an environment of their own; false when they were there.

    The versions are those of the base's time, and differ from those that check this repository.
    """
    layout = project.layout
    environment = layout.upstream_checks / "environment"
    python = environment / "bin" / "python"

    def install() -> None:
        run_or_raise(project, [str(layout.python), "-m", "venv", str(environment)], _TOOLS)
        install_into(project, python, TOOL_REQUIREMENTS, _TOOLS)

    return keep_up_to_date(project, TOOL_REQUIREMENTS, environment, _TOOLS, install, python.exists)
