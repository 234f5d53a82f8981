"""The build of the simulator: configured once, brought up to date, known to be whole."""

import os
from pathlib import Path

from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import remove, write_atomically
from fork_tool.common.processes import run_shown
from fork_tool.machine.environment import refuse_environment_of_another
from fork_tool.series.project import Project

_ARGUMENTS = ".mpsfork-arguments"
# Stands from the end of a build that went through to the beginning of the next.
_COMPLETE = ".mpsfork-complete"


def build_simulator(
    project: Project, build: Path, checkout: Path, sanitizer: str = "", again: bool = False, tests: bool = False
) -> None:
    """Build the simulator around the backend of a checkout.

    `again`: whose commit is another than at the last build; `tests`: also the programs and libraries that only tests run.
    """
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
                "CMake could not configure the simulator (see above): `scripts/mpsfork doctor` shows what this machine lacks."
            )
        write_atomically(stamp, "\n".join(arguments).encode())
    # The compiler's cache takes what a clone in another folder has compiled, too.
    environment = {"CCACHE_BASEDIR": str(layout.root), **os.environ}
    targets = ["--target", "all", "tests"] if tests else []
    if run_shown(["cmake", "--build", str(build), *targets], layout.root, environment):
        raise ForkToolError(
            "The simulator does not build (see above): after an edit of its sources or of the checkout, fix the errors that the compiler names; otherwise run `make clean` and this again."
        )
    write_atomically(build / _COMPLETE, b"")


def is_built(build: Path) -> bool:
    """Whether the last build went through to its end."""
    return (build / _COMPLETE).is_file() and (build / "mps_simulator.json").is_file()
