"""Other ways to run a suite: with each operator captured, with linked graph runs, or on a build with a sanitizer."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from fork_tool.common.console import out, say
from fork_tool.common.files import remove
from fork_tool.common.processes import exclusive
from fork_tool.machine.simulator_build import build_simulator
from fork_tool.series.project import Project
from fork_tool.suites.simulator import simulator_machine, with_modules_of
from fork_tool.suites.suite import CAPTURED, LINKED, Suite

# By the name that the user gives it: what clang is told, and the build's name.
SANITIZERS = {"address": ("address,undefined", "asan"), "thread": ("thread", "tsan")}
_REPORT = "sanitizer-report"
# The plugins of pytest in test/upstream/captured.
_PLUGINS = {CAPTURED: "mps_capture_mode", LINKED: "mps_linked"}


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
    return with_captures(project, environment, suite.mode) if suite.mode else environment


def with_captures(project: Project, environment: dict[str, str], mode: str = CAPTURED) -> dict[str, str]:
    """The environment in which pytest captures each operator, or links graph runs; drops the counts of an earlier run."""
    environment = with_modules_of(environment, project.layout.root / "test" / "upstream" / "captured")
    environment |= {"PYTEST_PLUGINS": _PLUGINS[mode]}
    if mode == CAPTURED:
        report = project.layout.reports / "capture_mode"
        remove(report)
        environment |= {"PYTORCH_TEST_MPS_CAPTURE": "1", "PYTORCH_TEST_MPS_CAPTURE_REPORT": str(report)}
    return environment


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
