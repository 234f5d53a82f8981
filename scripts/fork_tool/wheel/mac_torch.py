"""The patched torch that a Mac's tests run on: the user's own wheel, or the one that `make wheel FROM_SOURCE=1` has built."""

from __future__ import annotations

import sys
from pathlib import Path

from fork_tool.base.fetch import fetch
from fork_tool.common.errors import ForkToolError
from fork_tool.machine.environment import installed_version, lacking_modules
from fork_tool.series.apply import bring_series
from fork_tool.series.project import Project
from fork_tool.wheel.from_source import forget_installed_torch, install_patched_torch, is_installed_here, wheel_stands


def has_own_wheel(project: Project) -> bool:
    """Whether `.venv` has a torch with the series that was not installed from here."""
    layout, pin = project.layout, project.pin
    return (
        installed_version(pin.wheel_name) is not None
        and not is_installed_here(layout)
        and not lacking_modules(layout, pin)
    )


def bring_patched_torch(project: Project) -> None:
    """Leave a wheel of the user's where it is, with the checkout that its tests are in; else build and install one."""
    if not has_own_wheel(project):
        install_patched_torch(project)
        return
    if not project.layout.checkout.exists():
        fetch(project)
    bring_series(project)


def refuse_without_patched_torch(project: Project) -> None:
    """Fail, before anything is run or made, where there is neither a patched torch nor a wheel of it."""
    layout, pin = project.layout, project.pin
    found = installed_version(pin.wheel_name)
    if found is not None and not lacking_modules(layout, pin):
        return
    if wheel_stands(project):
        # What was installed of it is gone.
        forget_installed_torch(layout)
        return
    python = layout.shown(Path(sys.prefix) / "bin" / "python")
    said = (
        f"There is no {pin.wheel_name} in {sys.prefix}"
        if found is None
        else f"The {pin.wheel_name} {found} in {sys.prefix} was built without the series: it has no torch.mps.graph_capture"
    )
    raise ForkToolError(
        f"{said}. `make wheel` makes a patched one in minutes; it, or a wheel from elsewhere, is "
        f"installed by `{python} -m pip install WHEEL`. scripts/mac_wheel/README.md lists the requirements of a build."
    )
