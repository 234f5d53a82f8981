"""Builds of the simulator that find their own errors, and what these report."""

from __future__ import annotations

from pathlib import Path

from fork_tool.common.console import out, say
from fork_tool.common.errors import ForkToolError
from fork_tool.common.processes import exclusive
from fork_tool.machine.machine import Machine
from fork_tool.machine.simulator_build import build_simulator
from fork_tool.series.project import Project

# By the name that the user gives it: what clang is told, and the build's name.
KINDS = {"address": ("address,undefined", "asan"), "thread": ("thread", "tsan")}
_REPORT = "sanitizer-report"


def directory(project: Project, kind: str) -> Path:
    """Where the build with this sanitizer is."""
    return project.layout.other_simulator_build(KINDS[kind][1])


def build(project: Project, machine: Machine, kind: str) -> None:
    """Bring the build with this sanitizer up to date; everything it needs is there."""
    if not machine.runs_simulator:
        raise ForkToolError("The builds with sanitizers are builds of the simulator: use a Linux x86-64 machine.")
    with exclusive(project.layout):
        build_simulator(project, directory(project, kind), project.layout.checkout, KINDS[kind][0], tests=True)


def prepare_reports(project: Project, build_directory: Path, suite: str) -> dict[str, str]:
    """Remove a suite's old reports; returns the variables that send new ones to files, since pytest keeps what is printed."""
    for path in _reports(project, suite):
        path.unlink()
    destination = f"log_path={project.layout.reports / f'{_REPORT}-{suite}'}"
    options = dict.fromkeys(("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"), destination)
    return options | {"MPS_SIMULATOR_BUILD": str(build_directory)}


def show_reports(project: Project, suite: str) -> bool:
    """Print what the sanitizers reported of a suite; whether they did."""
    reports = _reports(project, suite)
    for path in reports:
        say(f"{project.layout.shown(path)}:", style="red")
        out.file.write(path.read_text("utf-8", "replace"))
    return bool(reports)


def _reports(project: Project, suite: str) -> list[Path]:
    return sorted(project.layout.reports.glob(f"{_REPORT}-{suite}.*"))
