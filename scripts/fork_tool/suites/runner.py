"""`demo`, `test` and `test-mps`: run programs on the device, or on the simulator of it."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable
from pathlib import Path

from rich.table import Table

from fork_tool.common.console import out, say
from fork_tool.common.errors import ForkToolError
from fork_tool.common.processes import exclusive, run_shown
from fork_tool.machine.environment import installed_version
from fork_tool.machine.machine import Machine, this_machine
from fork_tool.machine.pinned_packages import install_model_libraries, install_upstream_tools
from fork_tool.machine.setup import setup
from fork_tool.series.project import Project
from fork_tool.suites import sanitized
from fork_tool.suites.captured import capture_mode, problem_of_captured
from fork_tool.suites.reports import COLUMNS, Count, count_junit, count_totals, title_of
from fork_tool.suites.simulator import device_command, make_ready, make_ready_for_tests, program_environment
from fork_tool.suites.suite import CAPTURED_LIST, Suite
from fork_tool.suites.summary import Outcome, report_machine, Summary
from fork_tool.suites.table import load_suites
from fork_tool.suites.together import run_together

# Upstream's test of the backend takes other paths through it on each of these.
MAIN_FILES, MAIN_VERSIONS = ("test_mps.py",), ("15.2", "14.5")
# The tests for all devices that take this one too.
MORE_FILES = (
    "test_view_ops.py",
    "test_modules.py",
    "test_optim.py",
    "test_nn.py",
    "nn/test_convolution.py",
    "nn/test_dropout.py",
    "nn/test_pooling.py",
)
MORE_VERSIONS = ("15.2",)
FALLBACK_BENCH = "scripts/fallback_bench/run.py"


def run_demo(project: Project, arguments: Iterable[str]) -> int:
    """Run the demo and return its exit status."""
    return _run_program(project, "test/programs/demo/run.py", arguments)


def run_sweep(project: Project, arguments: Iterable[str]) -> int:
    """Capture and replay every operator, and return the exit status."""
    return _run_program(project, "test/programs/sweep/run.py", arguments)


def run_state(project: Project, arguments: Iterable[str]) -> int:
    """Run random programs with graphs and eagerly, and return the exit status."""
    return _run_program(project, "test/properties/orders/run.py", arguments)


def run_bench(project: Project, arguments: Iterable[str]) -> int:
    """Time the configurations of the benchmark, eager and replayed, and return the exit status."""
    return _run_program(project, "test/programs/benchmark/run.py", arguments)


def run_models(project: Project, arguments: Iterable[str]) -> int:
    """Compare models of public libraries with eager, and return the exit status."""
    with exclusive(project.layout):
        for done in setup(project):
            say(done)
        install_model_libraries(project)
    return _run_program(project, "test/programs/real_models/run.py", arguments)


def run_graph_caching(project: Project, arguments: Iterable[str]) -> int:
    """Count what the executable cache keeps, by operation and parameters, and return the exit status."""
    return _run_program(project, "test/programs/graph_caching/run.py", arguments)


def run_fallback_bench(project: Project, arguments: Iterable[str]) -> int:
    """Measure what operators without an MPS kernel cost, and return the exit status."""
    return _run_program(project, FALLBACK_BENCH, ("bench", *arguments))


def run_fallback_percentage(project: Project, arguments: Iterable[str]) -> int:
    """Say how much of a function falls back, and return the exit status."""
    return _run_program(project, FALLBACK_BENCH, ("percentage", *arguments))


def run_fallback_sync(project: Project, arguments: Iterable[str]) -> int:
    """Bring the list of requested operators up to date, which takes no device, and return the exit status."""
    layout = project.layout
    with exclusive(layout):
        for done in setup(project):
            say(done)
    command = [str(layout.python), FALLBACK_BENCH, "sync", *arguments]
    return run_shown(command, layout.root, program_environment(project))


def _run_program(project: Project, program: str, arguments: Iterable[str]) -> int:
    machine = this_machine()
    make_ready(project, machine)
    return run_shown(
        [*device_command(project, machine), program, *arguments],
        project.layout.root,
        program_environment(project),
    )


def run_upstream_tests(
    project: Project,
    arguments: Iterable[str],
    versions: Iterable[str] = (),
    more: bool = False,
    captured: bool = False,
) -> int:
    """Run upstream's tests of the device, all of them even after a failure, and return the worst exit status."""
    machine = this_machine()
    make_ready_for_tests(project, machine)
    layout = project.layout
    layout.reports.mkdir(parents=True, exist_ok=True)
    words = tuple(arguments)
    environment = program_environment(project)
    if captured:
        environment = capture_mode(project, environment)
    files = MORE_FILES if more else MAIN_FILES
    simulated = tuple(versions) or (MORE_VERSIONS if more else MAIN_VERSIONS)
    summary = _summary(project, machine, "test-mps", simulated)
    status = 0
    if machine.is_mac:
        simulated = ()
        status = _run_upstream_tests_on_mac(project, files, words, environment, summary)
    for version in simulated:
        for file in files:
            say(f"── {file} on macOS {version}", style="bold")
            command = [str(layout.python), "-m", "mps_simulator.run_test_mps", "--file", file, "--macos", version]
            if captured:
                command += CAPTURED_LIST
            report = _report_of(layout.reports, file, version, words)
            report.unlink(missing_ok=True)
            began = time.monotonic()
            ended = run_shown([*command, *words], layout.root, environment)
            status = max(status, ended)
            summary.add(Outcome(f"{file} on macOS {version}", count_totals(report, ended), time.monotonic() - began))
    summary.write(True)
    if captured and (problem := problem_of_captured(project)):
        raise ForkToolError(problem)
    return status


def _report_of(reports: Path, file: str, version: str, words: tuple[str, ...]) -> Path:
    """Where mps_simulator.run_test_mps writes its report."""
    if "--report" in words[:-1]:
        return Path(words[words.index("--report") + 1]).resolve()
    return reports / f"{file.removesuffix('.py').replace('/', '_')}_{version}.json"


def _run_upstream_tests_on_mac(
    project: Project,
    files: Iterable[str],
    arguments: tuple[str, ...],
    environment: dict[str, str],
    summary: Summary,
) -> int:
    layout = project.layout
    report = layout.reports / "test_mps.xml"
    report.unlink(missing_ok=True)
    began = time.monotonic()
    status = run_shown(
        [str(layout.python), "-m", "pytest", f"--junitxml={report}", *files, *arguments],
        layout.checkout / "test",
        {**environment, "PYTORCH_TESTING_DEVICE_ONLY_FOR": "mps"},
        where=layout.shown(layout.checkout / "test"),
    )
    summary.add(Outcome(", ".join(files), count_junit(report, status), time.monotonic() - began))
    return status


def _summary(project: Project, machine: Machine, command: str, macos: tuple[str, ...] = ()) -> Summary:
    found = installed_version(project.pin.wheel_name)
    return Summary(project, command, report_machine(machine, macos), found)


def run_suites(
    project: Project,
    chosen: Iterable[str],
    suites: tuple[Suite, ...] | None = None,
    command: str = "test",
    jobs: int | None = None,
) -> Count:
    """Run the suites, without names those of `make test`, all of them even after a failure, and count.

    They run side by side as if on `jobs` cores, without it on as many as keep those of the machine busy.
    """
    names = list(chosen)
    if suites is None:
        suites = load_suites(project.layout).suites
    unknown = [name for name in names if name not in [suite.name for suite in suites]]
    if unknown:
        raise ForkToolError(
            f"There is no suite {unknown[0]!r}: the suites are {', '.join(suite.name for suite in suites)}."
        )
    machine = this_machine()
    make_ready_for_tests(project, machine)
    for kind in dict.fromkeys(
        suite.sanitizer for suite in suites if suite.sanitizer and (not names or suite.name in names)
    ):
        sanitized.build(project, machine, kind)
    wanted = [suite for suite in suites if (suite.name in names if names else not suite.by_name_only)]
    selected = [suite for suite in wanted if suite.on_mac or not machine.is_mac]
    if any(suite.upstream_tools for suite in selected):
        with exclusive(project.layout):
            install_upstream_tools(project)
    if any(suite.model_libraries for suite in selected):
        with exclusive(project.layout):
            install_model_libraries(project)
    summary = _summary(project, machine, " ".join([command, *(f"--suite '{name}'" for name in names)]))
    run_together(project, machine, selected, jobs or _jobs(selected), summary.add)
    summary.write(True)
    outcomes = summary.outcomes([suite.name for suite in selected])
    table = Table("suite", *map(title_of, COLUMNS), "seconds")
    for one in outcomes:
        table.add_row(one.name, *(str(getattr(one.count, column)) for column in COLUMNS), f"{one.seconds:.0f}")
    out.print(table)
    return sum((one.count for one in outcomes), Count())


def _jobs(suites: Collection[Suite]) -> int:
    cores = os.cpu_count() or 1
    # A suite waits a fifth of its time, for files and for the programs that it starts.
    return cores + max(1, cores // 4) if len(suites) > 1 else cores


def run_sanitized(project: Project, sanitizer: str, chosen: Iterable[str]) -> Count:
    """Run the suites of a build with this sanitizer."""
    return run_suites(
        project, chosen, load_suites(project.layout).sanitized[sanitizer], f"test-sanitized --sanitizer {sanitizer}"
    )
