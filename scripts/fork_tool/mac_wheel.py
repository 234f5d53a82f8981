"""On a Mac: builds torch from the patched checkout and installs it, where Linux builds the simulator."""

from __future__ import annotations

import importlib
import os

from fork_tool.checkout import open_checkout
from fork_tool.console import say
from fork_tool.errors import ForkToolError
from fork_tool.files import remove, write_atomically
from fork_tool.processes import run_shown
from fork_tool.project import Project

_STAMP = ".mpsfork-patched-torch"
# A submodule that every build of torch needs, and that the Debian tarball lacks.
_SUBMODULE = "third_party/pybind11/CMakeLists.txt"


def install_patched_torch(project: Project) -> bool:
    """Build the wheel of the commit that is checked out and install it; false when that one is there."""
    layout = project.layout
    shown = layout.shown(layout.checkout)
    checkout = open_checkout(layout.checkout, project.pin, shown)
    stamp = layout.environment / _STAMP
    if stamp.is_file() and stamp.read_text() == checkout.head and not checkout.changed_files:
        return False
    if not (layout.checkout / _SUBMODULE).exists():
        raise ForkToolError(
            f"{shown} has no submodules, without which torch can't be built: "
            f"run `git -C {shown} submodule update --init --recursive`, or remove it and run `make fetch` where GitHub answers."
        )
    say("building the patched torch: about an hour the first time, minutes after small changes")
    python = str(layout.python)
    # The version of the base, so that the pinned requirement is met by what is built here.
    environment = os.environ | {
        "PYTORCH_BUILD_VERSION": project.pin.wheel_version,
        "PYTORCH_BUILD_NUMBER": "1",
        "USE_MPS": "1",
        "USE_DISTRIBUTED": "0",
        "BUILD_TEST": "0",
    }
    wheels = layout.build / "wheel"
    remove(wheels)
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*install, "-r", "requirements.txt"], project)
    _run([python, "setup.py", "bdist_wheel", "--dist-dir", str(wheels)], project, environment)
    built = sorted(wheels.glob(f"{project.pin.wheel_name}-*.whl"))
    if not built:
        raise ForkToolError(f"The build left no wheel in {layout.shown(wheels)}: see its output above.")
    _run([*install, "--force-reinstall", "--no-deps", str(built[-1])], project)
    importlib.invalidate_caches()
    write_atomically(stamp, checkout.head.encode())
    return True


def _run(command: list[str], project: Project, environment: dict[str, str] | None = None) -> None:
    layout = project.layout
    if run_shown(command, layout.checkout, environment, layout.shown(layout.checkout)):
        raise ForkToolError(
            "The patched torch could not be built (see above): `make doctor` shows what this Mac lacks, docs/wheel.md how to build by hand."
        )
