"""One suite: the command that runs it, and what its reports say afterwards."""

import os
from dataclasses import dataclass
from pathlib import Path

from fork_tool.common.console import say
from fork_tool.common.processes import run_shown
from fork_tool.machine.machine import Machine
from fork_tool.series.project import Project
from fork_tool.suites.modes import build_of_mode, environment_of_mode, problem_of_mode
from fork_tool.suites.reports import Count, count_junit, count_status, count_totals
from fork_tool.suites.simulator import device_command, program_environment
from fork_tool.suites.suite import ALONE, JUNIT, Suite, TOTALS


@dataclass(frozen=True)
class Start:
    """A suite that is ready to run."""

    suite: Suite
    command: tuple[str, ...]
    directory: Path
    environment: dict[str, str]
    report: Path

    @property
    def where(self) -> str:
        """The directory as it is shown to the user; empty at the top of the working copy."""
        return "" if self.suite.directory == "." else self.suite.directory


def is_missing(project: Project, suite: Suite) -> bool:
    """Whether the suite's files are missing, which is printed."""
    missing = suite.missing(project.layout.root)
    if missing:
        say(f"{', '.join(missing)} is missing: this suite counts as failed.", style="red")
    return bool(missing)


def prepare(project: Project, machine: Machine, suite: Suite, cores: int, build: Path | None = None) -> Start:
    """Say how a suite is run on so many cores, on the usual build or another; an older report is removed."""
    layout = project.layout
    layout.reports.mkdir(parents=True, exist_ok=True)
    environment = program_environment(project)
    if suite.load != ALONE:
        # Others run beside it, and OpenMP's threads would wait for each other at full load.
        environment.setdefault("OMP_NUM_THREADS", "1")
    environment = environment_of_mode(project, suite, environment)
    report = layout.reports / f"{suite.file_name}.{'json' if suite.counted == TOTALS else 'xml'}"
    report.unlink(missing_ok=True)
    processes = str(suite.processes(cores))
    words = [word.replace("{report}", str(report)).replace("{processes}", processes) for word in suite.words]
    start = [str(layout.python)]
    if suite.on_device:
        start = [*device_command(project, machine, build or build_of_mode(project, suite.mode)), *suite.simulator]
    return Start(suite, (*start, *words), layout.root / suite.directory, environment, report)


def count(project: Project, start: Start, status: int) -> Count:
    """Count what a suite that ended with this status reported."""
    if start.suite.counted == JUNIT:
        counted = count_junit(start.report, status)
    else:
        counted = count_totals(start.report, status) if start.suite.counted == TOTALS else count_status(status)
    if problem := problem_of_mode(project, start.suite):
        say(problem, style="red")
        counted.failed += 1
    return counted


def run_suite(project: Project, machine: Machine, suite: Suite, build: Path | None = None, cores: int = 0) -> Count:
    """Run one suite in the foreground, and count."""
    say(f"── {suite.name}", style="bold")
    if is_missing(project, suite):
        return Count(failed=1)
    start = prepare(project, machine, suite, suite.cores(cores or os.cpu_count() or 1), build)
    return count(project, start, run_shown(start.command, start.directory, start.environment, start.where))
