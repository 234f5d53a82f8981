"""The tools that upstream checks its sources with, in an environment of their own.

Upstream's versions are those of the base's time, and would be in the way of those that this repository is checked with.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from fork_tool.console import say
from fork_tool.errors import ForkToolError
from fork_tool.files import remove, write_atomically
from fork_tool.processes import run_shown
from fork_tool.project import Project

REQUIREMENTS = "test/upstream_checks/requirements.txt"
_STAMP = ".mpsfork-requirements"


def install_upstream_tools(project: Project) -> bool:
    """Bring the environment to its pinned requirements; false when it was there."""
    layout = project.layout
    wanted = layout.root / REQUIREMENTS
    environment = layout.upstream_checks / "environment"
    stamp = environment / _STAMP
    # Which interpreter made it, for one that is gone leaves nothing that runs.
    digest = hashlib.sha256(wanted.read_bytes() + sys.version.encode()).hexdigest()
    if stamp.is_file() and stamp.read_text() == digest and (environment / "bin" / "python").exists():
        return False
    remove(environment)
    layout.upstream_checks.mkdir(parents=True, exist_ok=True)
    say(f"installing upstream's tools in {layout.shown(environment)}")
    _run(project, [str(layout.python), "-m", "venv", str(environment)])
    python = str(environment / "bin" / "python")
    _run(
        project,
        [
            python,
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            "--quiet",
            "--requirement",
            str(Path(REQUIREMENTS)),
        ],
    )
    write_atomically(stamp, digest.encode())
    return True


def _run(project: Project, command: list[str]) -> None:
    if run_shown(command, project.layout.root):
        raise ForkToolError(
            "upstream's tools could not be installed (see above): check the network and the package index, then run this again."
        )
