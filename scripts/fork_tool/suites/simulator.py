"""`simulator`: everything that must stand before a program can run on the device, or on the base's backend."""

import os
from pathlib import Path

from fork_tool.base.fetch import fetch, SMALL_FIRST
from fork_tool.common.console import say
from fork_tool.common.errors import ForkToolError
from fork_tool.common.processes import exclusive
from fork_tool.machine.environment import check_torch
from fork_tool.machine.machine import Machine, this_machine
from fork_tool.machine.setup import setup
from fork_tool.machine.simulator_build import build_simulator
from fork_tool.series.apply import bring_series
from fork_tool.series.project import Project


def make_ready(project: Project, machine: Machine | None = None, tests: bool = False, always: bool = False) -> None:
    """Bring tools, checkout and the simulator up to date; a Mac must have a patched torch instead.

    `tests`: also what of the simulator's build only tests run; `always`: ask CMake even where nothing has changed.
    """
    machine = machine or this_machine()
    machine.refuse_unsupported()
    layout = project.layout
    with exclusive(layout):
        for done in setup(project, machine):
            say(done)
        check_torch(layout, project.pin, machine)
        if not layout.checkout.exists():
            fetch(project, sources=SMALL_FIRST)
        bring_series(project)
        if machine.runs_simulator:
            build_simulator(project, layout.simulator_build, layout.checkout, tests=tests, always=always)


def make_ready_for_tests(project: Project, machine: Machine) -> None:
    """The same with what tests run; on a Mac without the patched torch an error says so before anything is made."""
    if machine.is_mac:
        machine.refuse_unsupported()
        check_torch(project.layout, project.pin, machine)
    make_ready(project, machine, tests=True)


def simulator_machine() -> Machine:
    """This machine, for what builds with the simulator: on a Mac that would take hours."""
    machine = this_machine()
    machine.refuse_unsupported()
    if not machine.runs_simulator:
        raise ForkToolError("This builds the simulator, and a Mac has the device itself: use Linux on x86-64.")
    return machine


def make_unpatched_ready(project: Project, tests: bool = False) -> Path:
    """Build the simulator on the base; returns the build."""
    machine = simulator_machine()
    layout = project.layout
    build = layout.other_simulator_build("base")
    with exclusive(layout):
        for done in setup(project, machine):
            say(done)
        sources = base_sources(project)
        check_torch(layout, project.pin, machine)
        build_simulator(project, build, sources, tests=tests, always=True)
    return build


def base_sources(project: Project) -> Path:
    """A worktree at the base; what the user changes in it stays."""
    layout = project.layout
    if not layout.base_checkout.exists():
        if not layout.checkout.exists():
            fetch(project, sources=SMALL_FIRST)
        checkout = project.open_checkout()
        # Of one that was removed by hand, git still has the name.
        checkout.git.whole("worktree", "prune")
        checkout.git.whole("worktree", "add", "--quiet", "--detach", str(layout.base_checkout), checkout.base)
        say(f"{layout.shown(layout.base_checkout)} is now a checkout of PyTorch {project.pin.tag} without the series")
    return layout.base_checkout


def program_environment(project: Project) -> dict[str, str]:
    """The environment in which programs find the simulator's package."""
    return with_modules_of(dict(os.environ), project.layout.simulator_source) | {"PYTHONUNBUFFERED": "1"}


def with_modules_of(environment: dict[str, str], folder: Path) -> dict[str, str]:
    """The environment in which Python looks for modules in a folder first."""
    path = [str(folder), environment.get("PYTHONPATH", "")]
    return environment | {"PYTHONPATH": os.pathsep.join(part for part in path if part)}


def device_command(project: Project, machine: Machine, build: Path | None = None) -> list[str]:
    """How a program is started so that it has the device, or that of a build beside the usual one."""
    if machine.is_mac:
        return [str(project.layout.python)]
    chosen = ["--build", str(build)] if build else []
    return [str(project.layout.python), "-m", "mps_simulator", *chosen]
