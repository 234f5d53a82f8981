"""The build of the simulator: configured once, brought up to date, known to be whole."""

import hashlib
import os
from pathlib import Path

from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import remove, write_atomically
from fork_tool.common.git import Git
from fork_tool.common.processes import run_shown
from fork_tool.machine.environment import installed_version, refuse_environment_of_another
from fork_tool.series.project import Project

_ARGUMENTS = ".mpsfork-arguments"
# Stands from the end of a build that went through to the beginning of the next, and says what was built.
_COMPLETE = ".mpsfork-complete"


def build_simulator(
    project: Project,
    build: Path,
    checkout: Path,
    sanitizer: str = "",
    again: bool = False,
    tests: bool = False,
    always: bool = False,
) -> None:
    """Build the simulator around the backend of a checkout.

    `again`: whose commit is another than at the last build; `tests`: also the programs and libraries that only tests run;
    `always`: ask CMake even where nothing has changed.
    """
    layout = project.layout
    arguments = [
        *("-S", str(layout.simulator_source), "-B", str(build), "-G", "Ninja"),
        *(f"-DTORCH_CHECKOUT={checkout}", f"-DPYTHON={layout.python}", f"-DOBJFW_ROOT={layout.objfw}"),
        *([f"-DSANITIZER={sanitizer}"] if sanitizer else []),
    ]
    refuse_environment_of_another(layout)
    complete = build / _COMPLETE
    state = _state(project, checkout, arguments)
    if state and not again and not always and is_built(build):
        known_state, _, with_tests = complete.read_text().partition(" ")
        if known_state == state and (with_tests or not tests):
            return
    complete.unlink(missing_ok=True)
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
    write_atomically(complete, f"{state} {'tests' if tests else ''}".encode())


def _state(project: Project, checkout: Path, arguments: list[str]) -> str:
    """A digest of what the build is made of; empty for a checkout with changes, at which the build has to look itself."""
    git = Git(checkout)
    if git.run("status", "--porcelain", "--ignore-submodules=all", check=False).stdout:
        return ""
    tests = project.layout.root / "test"
    sources = sorted(
        path for name in ("simulator", "cpp") for path in (tests / name).rglob("*") if path.suffix != ".pyc"
    )
    stats = [(str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in sources if path.is_file()]
    wheel = installed_version(project.pin.wheel_name)
    return hashlib.sha256(repr((arguments, git.resolve("HEAD"), wheel, stats)).encode()).hexdigest()


def is_built(build: Path) -> bool:
    """Whether the last build went through to its end."""
    return (build / _COMPLETE).is_file() and (build / "mps_simulator.json").is_file()
