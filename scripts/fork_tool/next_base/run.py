"""The command `test-next`."""

from __future__ import annotations

import os
from collections.abc import Iterable

from fork_tool.console import say
from fork_tool.lock import exclusive
from fork_tool.next_base.make import make_next, newest_base, show
from fork_tool.processes import run_shown
from fork_tool.project import Project
from fork_tool.setup import setup

TESTS = "test/next_base"
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
