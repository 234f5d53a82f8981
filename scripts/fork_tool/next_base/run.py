"""The command `test-next`."""

from __future__ import annotations

import os
from collections.abc import Iterable

from fork_tool.common.console import say
from fork_tool.common.processes import exclusive, run_shown
from fork_tool.machine.setup import setup
from fork_tool.next_base.make import make_next, newest_base, show
from fork_tool.series.project import Project

TESTS = "test/releases/wheels"
# Which base the tests are about.
CHOSEN = "MPSFORK_NEXT_BASE"


def run_next(project: Project, base: str | None, arguments: Iterable[str]) -> int:
    """Make and show what is known of the base, then run the tests; returns the exit status."""
    with exclusive(project.layout):
        for done in setup(project):
            say(done)
    name = base or newest_base(project)
    show(make_next(project, name))
    words = list(arguments)
    command = [str(project.layout.python), "-m", "pytest", "-q", *(words or [TESTS])]
    return run_shown(command, project.layout.root, os.environ | {CHOSEN: name})
