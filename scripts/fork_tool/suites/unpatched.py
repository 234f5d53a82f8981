"""The simulator on sources of PyTorch as they are, for those who have no Mac and do not want the series."""

from __future__ import annotations

from pathlib import Path

from fork_tool.base.checkout import open_checkout
from fork_tool.base.fetch import fetch, SMALL_FIRST
from fork_tool.common.console import say
from fork_tool.common.errors import ForkToolError
from fork_tool.common.processes import exclusive
from fork_tool.machine.environment import check_torch
from fork_tool.machine.machine import Machine, this_machine
from fork_tool.machine.setup import setup
from fork_tool.machine.simulator_build import build_simulator
from fork_tool.series.project import Project

_BACKEND = "aten/src/ATen/mps/MPSStream.mm"


def make_unpatched_ready(
    project: Project, own: Path | None = None, machine: Machine | None = None, tests: bool = False
) -> Path:
    """Build the simulator on the base, or on the user's own sources; returns the build."""
    machine = machine or this_machine()
    machine.refuse_unsupported()
    if not machine.runs_simulator:
        raise ForkToolError("On a Mac the device itself is there: the simulator is for Linux x86-64.")
    layout = project.layout
    with exclusive(layout):
        for done in setup(project, machine):
            say(done)
        checkout = _own_sources(project, own) if own else base_sources(project)
        check_torch(layout, project.pin, machine)
        build = layout.other_simulator_build("own" if own else "base")
        build_simulator(project, build, checkout, tests=tests)
    return build


def _own_sources(project: Project, given: Path) -> Path:
    sources = given.expanduser().resolve()
    pin = project.pin
    if not (sources / _BACKEND).is_file():
        raise ForkToolError(f"{given} has no {_BACKEND}: give the top of a checkout of PyTorch {pin.tag}.")
    version = (sources / "version.txt").read_text("utf-8").strip()
    # The checkout of a release calls itself an alpha of it.
    if version.removesuffix("a0") != pin.wheel_version:
        raise ForkToolError(
            f"{given} is PyTorch {version}, and the rest of torch comes from the wheel of {pin.wheel_version}: "
            f"give a checkout of {pin.tag}, with what you change on top of it."
        )
    return sources


def base_sources(project: Project) -> Path:
    """A worktree at the base; what the user changes in it stays."""
    layout = project.layout
    if not layout.base_checkout.exists():
        if not layout.checkout.exists():
            fetch(project, sources=SMALL_FIRST)
        checkout = open_checkout(layout.checkout, project.pin, layout.shown(layout.checkout))
        # Of one that was removed by hand, git still has the name.
        checkout.git.whole("worktree", "prune")
        checkout.git.whole("worktree", "add", "--quiet", "--detach", str(layout.base_checkout), checkout.base)
        say(f"{layout.shown(layout.base_checkout)} is now a checkout of PyTorch {project.pin.tag} without the series")
    return layout.base_checkout
