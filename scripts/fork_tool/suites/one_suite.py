"""Running one suite, as it is or with each operator captured, or on a build with a sanitizer."""

import json
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from fork_tool.common.console import out, say
from fork_tool.common.files import remove
from fork_tool.common.processes import exclusive, run_shown
from fork_tool.machine.machine import Machine
from fork_tool.machine.simulator_build import build_simulator
from fork_tool.series.project import Project
from fork_tool.suites.reports import Count, count_junit, count_status, count_totals
from fork_tool.suites.simulator import device_command, program_environment, simulator_machine, with_modules_of
from fork_tool.suites.suite import AHEAD, ALONE, CAPTURED, JUNIT, Suite, TOTALS


@dataclass(frozen=True)
class Start:
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


# By the name that the user gives it: what clang is told, and the build's name.
SANITIZERS = {"address": ("address,undefined", "asan"), "thread": ("thread", "tsan")}
_REPORT = "sanitizer-report"


def build_of_mode(project: Project, mode: str) -> Path | None:
    """The build that a mode runs on; none where it is the usual one."""
    return project.layout.other_simulator_build(SANITIZERS[mode][1]) if mode in SANITIZERS else None


def build_with_sanitizer(project: Project, kind: str) -> None:
    """Bring the build with this sanitizer up to date; everything it needs is there."""
    simulator_machine()
    build = project.layout.other_simulator_build(SANITIZERS[kind][1])
    with exclusive(project.layout):
        build_simulator(project, build, project.layout.checkout, SANITIZERS[kind][0], tests=True)


def environment_of_mode(project: Project, suite: Suite, environment: dict[str, str]) -> dict[str, str]:
    """What a suite's processes see in its mode; the reports of an earlier run are removed."""
    if suite.mode in SANITIZERS:
        for path in _sanitizer_reports(project, suite):
            path.unlink()
        # Into files, since pytest keeps what is printed.
        destination = f"log_path={project.layout.reports / f'{_REPORT}-{suite.file_name}'}"
        options = dict.fromkeys(("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"), destination)
        return environment | options | {"MPS_SIMULATOR_BUILD": str(build_of_mode(project, suite.mode))}
    if suite.mode == AHEAD:
        return environment | {"PYTORCH_MPS_GRAPH_ENCODE_AHEAD": "2"}
    return with_captures(project, environment) if suite.mode == CAPTURED else environment


def with_captures(project: Project, environment: dict[str, str]) -> dict[str, str]:
    """The environment in which pytest captures each operator; drops the counts of an earlier run."""
    environment = with_modules_of(environment, project.layout.root / "test" / "upstream" / "captured")
    report = project.layout.reports / "capture_mode"
    remove(report)
    return environment | {
        "PYTEST_PLUGINS": "mps_capture_mode",
        "PYTORCH_TEST_MPS_CAPTURE": "1",
        "PYTORCH_TEST_MPS_CAPTURE_REPORT": str(report),
    }


def problem_of_mode(project: Project, suite: Suite) -> str:
    """Print what a mode reported of a suite, and return what is wrong, which the suite's own tests may not have seen."""
    if suite.mode == CAPTURED:
        return problem_of_captures(project)
    if suite.mode not in SANITIZERS:
        return ""
    reports = _sanitizer_reports(project, suite)
    for path in reports:
        say(f"{project.layout.shown(path)}:", style="red")
        out.file.write(path.read_text("utf-8", "replace"))
    return f"The {suite.mode} sanitizer has reported errors." if reports else ""


def problem_of_captures(project: Project) -> str:
    """Print how many operators were captured and replayed, and what was refused; returns what is wrong with that."""
    totals: dict[str, Counter[str]] = {"operators": Counter(), "changed inputs": Counter(), "refusals": Counter()}
    for path in sorted((project.layout.reports / "capture_mode").glob("*.json")):
        for name, counts in json.loads(path.read_text()).items():
            totals[name].update(counts)
    for name, counts in totals.items():
        say(f"{name}: " + (", ".join(f"{count:,} {outcome}" for outcome, count in counts.most_common()) or "none"))
    if not totals["operators"]["equal"]:
        return "No operator was captured: test/upstream/captured was not loaded."
    if not totals["changed inputs"]["equal"]:
        return "No operator was replayed on changed inputs."
    different = totals["operators"]["different"] + totals["changed inputs"]["different"]
    # A test that is expected to fail would hide it.
    return f"{different} replays differed from eager: look for 'gave other values' in the report." if different else ""


def _sanitizer_reports(project: Project, suite: Suite) -> list[Path]:
    return sorted(project.layout.reports.glob(f"{_REPORT}-{suite.file_name}.*"))
