"""`setup`: install what this machine lacks; quick and silent when nothing does."""

import os
import sys
from collections.abc import Iterable, Iterator

import click

from fork_tool.common.errors import ForkToolError
from fork_tool.common.processes import output_of, run_shown
from fork_tool.machine.environment import install_requirements
from fork_tool.machine.machine import as_administrator, BROWSER, Machine, Need, needs_of, this_machine
from fork_tool.machine.unpacked import fetch_apple_metadata, unpack_objfw
from fork_tool.series.project import Project

_ANSWERED = "MPSFORK_YES"


def _answer(_context: click.Context, _parameter: click.Parameter, yes: bool) -> None:
    if yes:
        os.environ[_ANSWERED] = "1"


YES = click.option(
    "--yes", "-y", is_flag=True, expose_value=False, callback=_answer, help="Install system packages without asking."
)


def setup(project: Project, machine: Machine | None = None) -> Iterator[str]:
    """Install packages, ObjFW, the virtual environment and Apple's constants; yields what was done."""
    machine = machine or this_machine()
    machine.refuse_unsupported()
    installed = install_packages(project, machine, needs_of(machine))
    if installed:
        yield f"installed {', '.join(installed)}"
    if machine.runs_simulator and unpack_objfw(project.layout, project.pin):
        yield f"unpacked ObjFW to {project.layout.shown(project.layout.objfw)}"
    if install_requirements(project.layout, project.pin, machine):
        yield f"installed the requirements in {project.layout.shown(project.layout.environment)}"
    if machine.runs_simulator and fetch_apple_metadata(project.layout):
        yield f"downloaded Apple's constants to {project.layout.shown(project.layout.apple_metadata)}"


def install_packages(project: Project, machine: Machine, needs: Iterable[Need]) -> list[str]:
    """Install those of the needs that the machine lacks; returns the packages."""
    lacking = [need for need in needs if need.found() is None]
    if not lacking:
        return []
    if machine.is_mac:
        raise ForkToolError(
            f"This Mac lacks {', '.join(need.name for need in lacking)}: run `{'; '.join(dict.fromkeys(need.mac for need in lacking))}`, then this again."
        )
    packages = [need.debian for need in lacking]
    if not machine.is_debian:
        raise ForkToolError(
            f"{machine.distribution or 'This Linux'} is neither Debian nor Ubuntu, and {', '.join(need.name for need in lacking)} are missing: "
            f"install what Debian calls {' '.join(packages)} by its own means, then run this again."
        )
    _ask(packages)
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    if run_shown(as_administrator(["apt-get", "update", "-qq"]), project.layout.root, environment):
        raise ForkToolError(
            "apt-get could not read the package lists (see above): check the network and /etc/apt, then run `make setup` again."
        )
    unknown = [package for package in packages if not _has_candidate(package)]
    if unknown:
        raise ForkToolError(
            f"{machine.distribution} has no package {' and no '.join(unknown)}: use Debian 12, Ubuntu 24.04 or later, or add a package source that has it, then run `make setup` again."
        )
    command = as_administrator(["apt-get", "install", "--yes", "-qq", "--no-install-recommends", *packages])
    if run_shown(command, project.layout.root, environment):
        raise ForkToolError(
            f"apt-get could not install {' '.join(packages)} (see above): fix that, then run `make setup` again."
        )
    return packages


def install_browser(project: Project) -> None:
    """Install Chromium, except on Ubuntu, which has it only as a snap: the tests skip there if Chrome is missing."""
    machine = this_machine()
    if "ubuntu" not in machine.family:
        install_packages(project, machine, [BROWSER])


def _ask(packages: list[str]) -> None:
    """Only at a terminal: elsewhere nobody could answer."""
    if os.environ.get(_ANSWERED) or not sys.stdin.isatty():
        return
    if not click.confirm(f"Install {' '.join(packages)} with apt-get?", default=True):
        raise ForkToolError(f"Nothing was installed. Install {' '.join(packages)} by other means, then run this again.")


def _has_candidate(package: str) -> bool:
    said = output_of(["apt-cache", "policy", package], env=os.environ | {"LC_ALL": "C"}) or ""
    return "Candidate:" in said and "Candidate: (none)" not in said
