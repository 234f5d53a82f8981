"""One suite: the command that runs it, and what its reports say afterwards."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from fork_tool.common.console import say
from fork_tool.common.processes import run_shown
from fork_tool.machine.machine import Machine
from fork_tool.series.project import Project
from fork_tool.suites import sanitized
from fork_tool.suites.captured import capture_mode, problem_of_captured, with_plugin
from fork_tool.suites.reports import Count, count_junit, count_status, count_totals
from fork_tool.suites.simulator import device_command, program_environment
from fork_tool.suites.suite import JUNIT, Suite, TOTALS


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
    if (project.layout.root / suite.needs).exists():
        return False
    say(f"{suite.needs} is missing: this suite counts as failed.", style="red")
    return True


def prepare(project: Project, machine: Machine, suite: Suite, cores: int, build: Path | None = None) -> Start:
    """Say how a suite is run on so many cores, on the usual build or another; an older report is removed."""
    layout = project.layout
    layout.reports.mkdir(parents=True, exist_ok=True)
    environment = program_environment(project)
    if not suite.measures_time:
        # Others run beside it, and OpenMP's threads would wait for each other at full load.
        environment.setdefault("OMP_NUM_THREADS", "1")
    if suite.sanitizer:
        build = sanitized.directory(project, suite.sanitizer)
        environment |= sanitized.prepare_reports(project, build, suite.file_name)
    if suite.captured:
        environment = capture_mode(project, environment)
    if suite.linked:
        environment = with_plugin(project, environment, "mps_linked")
    report = layout.reports / f"{suite.file_name}.{'json' if suite.counted == TOTALS else 'xml'}"
    report.unlink(missing_ok=True)
    processes = str(suite.processes(cores))
    words = [word.replace("{report}", str(report)).replace("{processes}", processes) for word in suite.words]
    start = [*device_command(project, machine, build), *suite.simulator] if suite.on_device else [str(layout.python)]
    return Start(suite, (*start, *words), layout.root / suite.directory, environment, report)


def count(project: Project, start: Start, status: int) -> Count:
    """Count what a suite that ended with this status reported."""
    suite = start.suite
    counted = _counted(suite, start.report, status)
    if suite.captured and (problem := problem_of_captured(project)):
        say(problem, style="red")
        counted.failed += 1
    if suite.sanitizer and sanitized.show_reports(project, suite.file_name) and not counted.failed:
        # A child whose status no test looked at has ended with it.
        counted.failed = 1
    return counted


def run_suite(project: Project, machine: Machine, suite: Suite, build: Path | None = None, cores: int = 0) -> Count:
    """Run one suite in the foreground, and count."""
    say(f"── {suite.name}", style="bold")
    if is_missing(project, suite):
        return Count(failed=1)
    start = prepare(project, machine, suite, suite.cores(cores or os.cpu_count() or 1), build)
    return count(project, start, run_shown(start.command, start.directory, start.environment, start.where))


def _counted(suite: Suite, report: Path, status: int) -> Count:
    if suite.counted == JUNIT:
        return count_junit(report, status)
    return count_totals(report, status) if suite.counted == TOTALS else count_status(status)
