"""`simulator`: everything that must stand before a program can run on the device."""

from __future__ import annotations

import os
from pathlib import Path

from fork_tool.apply import bring_series
from fork_tool.console import say
from fork_tool.environment import check_torch, refuse_environment_of_another
from fork_tool.errors import ForkToolError
from fork_tool.fetch import fetch
from fork_tool.files import remove, write_atomically
from fork_tool.lock import exclusive
from fork_tool.mac_torch import bring_patched_torch, refuse_without_patched_torch
from fork_tool.machine import Machine, this_machine
from fork_tool.processes import run_shown
from fork_tool.project import Project
from fork_tool.setup import setup

# The simulator needs no submodules, and the tarball has none: it is 27 MB instead of gigabytes.
SOURCES = ("debian", "git")
_ARGUMENTS = ".mpsfork-arguments"
# Stands from the end of a build that went through to the beginning of the next.
_COMPLETE = ".mpsfork-complete"


def make_ready(project: Project, machine: Machine | None = None) -> None:
    """Bring tools, checkout and the simulator (on a Mac: the patched torch) up to date."""
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
                fetch(project, sources=SOURCES)
            bring_series(project)
        check_torch(layout, project.pin, machine)
        if machine.runs_simulator:
            build_simulator(project, layout.simulator_build, layout.checkout)


def make_ready_for_tests(project: Project, machine: Machine) -> None:
    """The same, but a Mac without the patched torch is told so: a build of hours is nothing that a test begins."""
    if machine.is_mac:
        machine.refuse_unsupported()
        refuse_without_patched_torch(project)
    make_ready(project, machine)


def build_simulator(project: Project, build: Path, checkout: Path, sanitizer: str = "", again: bool = False) -> None:
    """Build the simulator around the backend of a checkout; `again`: whose commit is another than at the last build."""
    layout = project.layout
    arguments = [
        *("-S", str(layout.simulator_source), "-B", str(build), "-G", "Ninja"),
        *(f"-DTORCH_CHECKOUT={checkout}", f"-DPYTHON={layout.python}", f"-DOBJFW_ROOT={layout.objfw}"),
        *([f"-DSANITIZER={sanitizer}"] if sanitizer else []),
    ]
    refuse_environment_of_another(layout)
    (build / _COMPLETE).unlink(missing_ok=True)
    stamp = build / _ARGUMENTS
    known = stamp.read_text() if stamp.is_file() else None
    moved = known != "\n".join(arguments)
    if moved or again or not (build / "build.ninja").exists():
        if moved and known is not None:
            # Configured for other places: CMake keeps what it found there.
            remove(build / "CMakeCache.txt")
        if run_shown(["cmake", *arguments], layout.root):
            raise ForkToolError(
                "CMake could not configure the simulator (see above): `make doctor` shows what this machine lacks."
            )
        write_atomically(stamp, "\n".join(arguments).encode())
    # The compiler's cache takes what a clone in another folder has compiled, too.
    environment = {"CCACHE_BASEDIR": str(layout.root), **os.environ}
    if run_shown(["cmake", "--build", str(build)], layout.root, environment):
        raise ForkToolError(
            "The simulator does not build (see above): after an edit of its sources or of the checkout, mend what the compiler names; else `make clean` and run it again."
        )
    write_atomically(build / _COMPLETE, b"")


def is_built(build: Path) -> bool:
    """Whether the last build went through to its end."""
    return (build / _COMPLETE).is_file() and (build / "mps_simulator.json").is_file()


def program_environment(project: Project) -> dict[str, str]:
    """The environment in which programs find the simulator's package."""
    path = [str(project.layout.simulator_source), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(part for part in path if part), "PYTHONUNBUFFERED": "1"}


def device_command(project: Project, machine: Machine, build: Path | None = None) -> list[str]:
    """How a program is started so that it has the device, or that of a build beside the usual one."""
    if machine.is_mac:
        return [str(project.layout.python)]
    chosen = ["--build", str(build)] if build else []
    return [str(project.layout.python), "-m", "mps_simulator", *chosen]
