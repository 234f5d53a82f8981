"""`simulator`: everything that must stand before a program can run on the device."""

from __future__ import annotations

import os
from pathlib import Path

from fork_tool.base.fetch import fetch, SMALL_FIRST
from fork_tool.common.console import say
from fork_tool.common.processes import exclusive
from fork_tool.machine.environment import check_torch
from fork_tool.machine.machine import Machine, this_machine
from fork_tool.machine.setup import setup
from fork_tool.machine.simulator_build import build_simulator
from fork_tool.series.apply import bring_series
from fork_tool.series.project import Project
from fork_tool.wheel.mac_torch import bring_patched_torch, refuse_without_patched_torch


def make_ready(project: Project, machine: Machine | None = None, tests: bool = False) -> None:
    """Bring tools, checkout and the simulator (on a Mac: the patched torch) up to date.

    `tests`: also what of the simulator's build only tests run.
    """
    machine = machine or this_machine()
    machine.refuse_unsupported()
    layout = project.layout
    with exclusive(layout):
        for done in setup(project, machine):
            say(done)
        if machine.is_mac:
            bring_patched_torch(project)
        else:
            if not layout.checkout.exists():
                fetch(project, sources=SMALL_FIRST)
            bring_series(project)
        check_torch(layout, project.pin, machine)
        if machine.runs_simulator:
            build_simulator(project, layout.simulator_build, layout.checkout, tests=tests)


def make_ready_for_tests(project: Project, machine: Machine) -> None:
    """The same with what tests run, but on a Mac without the patched torch an error says so: a test does not begin a build of hours."""
    if machine.is_mac:
        machine.refuse_unsupported()
        refuse_without_patched_torch(project)
    make_ready(project, machine, tests=True)


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
