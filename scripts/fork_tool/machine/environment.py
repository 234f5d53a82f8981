"""The virtual environment and what is installed in it."""

import importlib.metadata
import os
import sys
from pathlib import Path

from fork_tool.base.pin import Pin
from fork_tool.common.console import note, say
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import is_filled, mark_filled
from fork_tool.common.processes import run_shown
from fork_tool.machine.machine import Machine
from fork_tool.machine.package_index import pip_command
from fork_tool.paths import Layout
from fork_tool.series.overlay import list_overlay

# By which an interpreter finds the simulator; test/simulator/cmake/PythonSide.cmake writes it.
_HOOK = "mps_simulator.pth"
_PATCHED = "`make wheel` makes a patched one, which `.venv/bin/python -m pip install WHEEL` puts there."


def wanted(layout: Layout, pin: Pin) -> list[str]:
    """The pinned requirements; torch's version is in base.toml alone."""
    lines = layout.requirements.read_text("utf-8").splitlines()
    pinned = [line.split("#", 1)[0].strip() for line in lines]
    return [pin.wheel, *(line for line in pinned if line)]


def unsatisfied(requirements: list[str]) -> list[str]:
    """Those of the requirements that this interpreter's environment does not meet exactly."""
    lacking = []
    for requirement in requirements:
        name, _, version = requirement.partition("==")
        found = installed_version(name)
        # A local label (2.6.0+cpu) says how the same version was built.
        if found is None or found.split("+")[0] != version:
            lacking.append(requirement)
    return lacking


def installed_version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def install_requirements(layout: Layout, pin: Pin, machine: Machine) -> bool:
    """Bring the environment to the pinned requirements; false when it was there."""
    requirements = wanted(layout, pin)
    if machine.is_mac and installed_version(pin.wheel_name):
        # On a Mac the wheel is the one that was built from the patched checkout.
        requirements.remove(pin.wheel)
    if is_filled(layout.environment, requirements) and not unsatisfied(
        [pin.wheel] if pin.wheel in requirements else []
    ):
        return False
    lacking = unsatisfied(requirements)
    if lacking:
        if pin.wheel in lacking:
            install_cpu_build(layout, pin, machine)
        say(f"installing {len(lacking)} of {len(requirements)} pinned requirements")
        command = [str(layout.python), "-m", "pip", "install", "--disable-pip-version-check", "--quiet", *lacking]
        if run_shown(command, layout.root):
            raise ForkToolError(
                "pip could not install the requirements (see above): check the network and the package index, then run `make setup` again."
            )
        importlib.invalidate_caches()
    mark_filled(layout.environment, requirements)
    return bool(lacking)


def refuse_environment_of_another(layout: Layout) -> None:
    """Refuse to take an environment over from another working copy, whose simulator it finds by a file of its own."""
    for hook in sorted(layout.environment.glob(f"lib/python*/site-packages/{_HOOK}")):
        other = Path(hook.read_text("utf-8").partition("\n")[0])
        if other.is_dir() and other.resolve() != layout.simulator_source.resolve():
            shown = layout.shown(layout.environment)
            place = f"{shown} (a link to {layout.environment.resolve()})" if layout.environment.is_symlink() else shown
            raise ForkToolError(
                f"The environment {place} runs the simulator of {other}, and would no longer after a build here: "
                f"`rm {'' if layout.environment.is_symlink() else '-r '}{shown}` and run this again, which makes one of its own; "
                f"or, to take it over, remove {hook}."
            )


def check_torch(layout: Layout, pin: Pin, machine: Machine) -> None:
    """Refuse to run on another torch than the pinned one; on a Mac it must be the patched one."""
    found = installed_version(pin.wheel_name)
    if found is None:
        remedy = _PATCHED if machine.is_mac else "run `make setup`."
        raise ForkToolError(f"There is no {pin.wheel_name} in {sys.prefix}: {remedy}")
    release = found.split("+")[0]
    if machine.is_mac:
        # What is built from a checkout calls itself an alpha of its release.
        release = release.removesuffix("a0")
    if release != pin.wheel_version:
        raise ForkToolError(
            f"The environment {sys.prefix} has {pin.wheel_name} {found}, and the series stands on {pin.wheel_version}: "
            "`make setup` installs that one."
        )
    if machine.is_mac and lacking_modules(layout, pin):
        raise ForkToolError(
            f"The {pin.wheel_name} {found} in {sys.prefix} is not built from the patched checkout: {_PATCHED}"
        )


def lacking_modules(layout: Layout, pin: Pin) -> list[str]:
    """The Python modules of the series that the installed torch does not have."""
    package = Path(str(importlib.metadata.distribution(pin.wheel_name).locate_file("")))
    modules = [path for path in list_overlay(layout.overlay) if path.startswith("torch/") and path.endswith(".py")]
    return [path for path in modules if not (package / path).exists()]


INDEX_VARIABLE = "MPSFORK_CPU_INDEX"
ANSWER_SECONDS = 5


def install_cpu_build(layout: Layout, pin: Pin, machine: Machine) -> bool:
    """Install the base's torch without CUDA's libraries from the index of CPU builds; false where pip's own index must be used."""
    index = os.environ.get(INDEX_VARIABLE, pin.cpu_index)
    if machine.is_mac or not index:
        return False
    say(f"installing {pin.wheel}+cpu from {index}, which needs none of CUDA's libraries")
    # What it needs besides comes with the other requirements, from the index that they come from.
    words = ["--index-url", index, "--retries", "0", "--timeout", str(ANSWER_SECONDS), f"{pin.wheel}+cpu"]
    if not run_shown(pip_command(layout.python, words), layout.root):
        return True
    note(f"{index} does not give it (see above); {pin.wheel} comes with 2.7 GB of CUDA's libraries")
    return False
