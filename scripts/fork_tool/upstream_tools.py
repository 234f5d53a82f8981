"""The tools that upstream checks its sources with, in an environment of their own.

Upstream's versions are those of the base's time, and would be in the way of those that this repository is checked with.
"""

from __future__ import annotations

from fork_tool.pinned_packages import install_into, keep_up_to_date, run_or_raise
from fork_tool.project import Project

REQUIREMENTS = "test/upstream_checks/requirements.txt"
_WHAT = "upstream's tools"


def install_upstream_tools(project: Project) -> bool:
    """Bring the environment to its pinned requirements; false when it was there."""
    layout = project.layout
    environment = layout.upstream_checks / "environment"
    python = environment / "bin" / "python"

    def install() -> None:
        run_or_raise(project, [str(layout.python), "-m", "venv", str(environment)], _WHAT)
        install_into(project, python, REQUIREMENTS, _WHAT)

    return keep_up_to_date(project, REQUIREMENTS, environment, _WHAT, install, python.exists)
