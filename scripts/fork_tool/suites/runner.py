"""Running programs, upstream's tests and suites on the device, or on the simulator of it."""

import os
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from fork_tool.common.console import say
from fork_tool.common.errors import ForkToolError
from fork_tool.common.processes import exclusive, run_shown, standard_output_to_error
from fork_tool.machine.environment import installed_version
from fork_tool.machine.machine import Machine, this_machine
from fork_tool.machine.package_index import install_model_libraries, install_upstream_tools
from fork_tool.machine.setup import install_browser, setup
from fork_tool.series.project import Project
from fork_tool.suites.one_suite import build_with_sanitizer, problem_of_captures, SANITIZERS, with_captures
from fork_tool.suites.reports import (
    Count,
    count_junit,
    count_totals,
    failures_of,
    machine_sentence,
    Outcome,
    Summary,
)
from fork_tool.suites.simulator import (
    device_command,
    make_ready,
    make_ready_for_tests,
    program_environment,
    with_modules_of,
)
from fork_tool.suites.suite import BROWSER, CAPTURED_LIST, load_suites, MODEL_LIBRARIES, Suite, UPSTREAM_TOOLS
from fork_tool.suites.together import run_together

# Upstream's test of the backend takes other paths through it on each of these.
MAIN_FILES, MAIN_VERSIONS = ("test_mps.py",), ("15.2", "14.5")
# The tests for all devices that take this one too.
MORE_FILES = (
    *("test_view_ops.py", "test_modules.py", "test_optim.py", "test_nn.py"),
    *("nn/test_convolution.py", "nn/test_dropout.py", "nn/test_pooling.py"),
)
MORE_VERSIONS = ("15.2",)
# What test/upstream/ported ports.
PORTED_FILES = ("inductor/test_cudagraph_trees.py", "functorch/test_aotdispatch.py", "dynamo/test_backends.py")


def run_program(project: Project, *words: str) -> int:
    """Run a program on the device."""
    machine = this_machine()
    make_ready(project, machine)
    command = [*device_command(project, machine), *words]
    return run_shown(command, project.layout.root, program_environment(project))


def become_program(project: Project, *words: str) -> NoReturn:
    """Make this process the program on the device: input, exit status and signals are its own, as is the directory."""
    machine = this_machine()
    with standard_output_to_error():
        make_ready(project, machine)
    command = [*device_command(project, machine), *words]
    os.execve(command[0], command, program_environment(project))


def run_with_models(project: Project, *words: str) -> int:
    """Run a program that imports the libraries of real models."""
    _set_up(project, install_model_libraries)
    return run_program(project, *words)


def run_without_device(project: Project, *words: str) -> int:
    """Run a program that wants torch and no device."""
    _set_up(project)
    return run_shown([str(project.layout.python), *words], project.layout.root, program_environment(project))


def _set_up(project: Project, install: Callable[[Project], object] | None = None) -> None:
    with exclusive(project.layout):
        for done in setup(project):
            say(done)
        if install:
            install(project)


def run_upstream_tests(
    project: Project,
    words: tuple[str, ...],
    versions: Iterable[str] = (),
    more: bool = False,
    captured: bool = False,
    ported: bool = False,
) -> int:
    """Run upstream's tests of the device, all of them even after a failure, and return the worst exit status."""
    machine = this_machine()
    make_ready_for_tests(project, machine)
    layout = project.layout
    layout.reports.mkdir(parents=True, exist_ok=True)
    environment = program_environment(project)
    if captured:
        environment = with_captures(project, environment)
    files = PORTED_FILES if ported else MORE_FILES if more else MAIN_FILES
    simulated = tuple(versions) or (MAIN_VERSIONS if files == MAIN_FILES else MORE_VERSIONS)
    flags = [*(CAPTURED_LIST if captured else ()), *(["--ported"] if ported else ())]
    summary = _summary(project, machine, "test-mps", simulated)
    status = 0
    if machine.is_mac:
        report = layout.reports / "test_mps.xml"
        report.unlink(missing_ok=True)
        began, where = time.monotonic(), layout.checkout / "test"
        command = [str(layout.python), "-m", "pytest", f"--junitxml={report}", *files, *words]
        if ported:
            command += ["-p", "mps_ported"]
            environment = with_modules_of(environment, layout.root / "test" / "upstream" / "ported")
        else:
            environment |= {"PYTORCH_TESTING_DEVICE_ONLY_FOR": "mps"}
        status = run_shown(command, where, environment, where=layout.shown(where))
        summary.add(Outcome(", ".join(files), count_junit(report, status), time.monotonic() - began))
        simulated = ()
    for version in simulated:
        for file in files:
            say(f"── {file} on macOS {version}", style="bold")
            command = [str(layout.python), "-m", "mps_simulator.run_test_mps", "--file", file, "--macos", version]
            report = _report_of(layout.reports, file, version, words)
            report.unlink(missing_ok=True)
            began = time.monotonic()
            ended = run_shown([*command, *flags, *words], layout.root, environment)
            status = max(status, ended)
            summary.add(Outcome(f"{file} on macOS {version}", count_totals(report, ended), time.monotonic() - began))
    summary.write(True)
    if captured and (problem := problem_of_captures(project)):
        raise ForkToolError(problem)
    return status


def _report_of(reports: Path, file: str, version: str, words: tuple[str, ...]) -> Path:
    """Where mps_simulator.run_test_mps writes its report."""
    if "--report" in words[:-1]:
        return Path(words[words.index("--report") + 1]).resolve()
    return reports / f"{file.removesuffix('.py').replace('/', '_')}_{version}.json"


def _summary(project: Project, machine: Machine, command: str, macos: tuple[str, ...] = ()) -> Summary:
    found = installed_version(project.pin.wheel_name)
    return Summary(project, command, machine_sentence(machine, macos), found)


def run_suites(
    project: Project,
    names: Collection[str],
    suites: tuple[Suite, ...] | None = None,
    jobs: int | None = None,
    everything: bool = False,
) -> Count:
    """Run the suites of these names, or `everything`, or those of `make test`, even after a failure, and count.

    They run side by side as if on `jobs` cores, without it on as many as keep those of the machine busy.
    """
    if suites is None:
        suites = load_suites(project.layout)
    known = [suite.name for suite in suites]
    for name in names:
        if name not in known:
            raise ForkToolError(f"There is no suite {name!r}: the suites are {', '.join(known)}.")
    machine = this_machine()
    make_ready_for_tests(project, machine)
    if names or everything:
        chosen = [suite for suite in suites if everything or suite.name in names]
    else:
        chosen = [replace(one, words=(*one.words, *one.brief)) for one in suites if one.brief is not None]
    for kind in dict.fromkeys(suite.mode for suite in chosen if suite.mode in SANITIZERS):
        build_with_sanitizer(project, kind)
    chosen = [suite for suite in chosen if suite.on_mac or not machine.is_mac]
    for packages, install in (
        (UPSTREAM_TOOLS, install_upstream_tools),
        (MODEL_LIBRARIES, install_model_libraries),
        (BROWSER, install_browser),
    ):
        if any(suite.packages == packages for suite in chosen):
            with exclusive(project.layout):
                install(project)
    summary = _summary(project, machine, " ".join(["test", *(["--all"] if everything else map(repr, names))]))
    run_together(project, machine, chosen, jobs or _jobs(chosen), summary.add)
    summary.write(True)
    outcomes = summary.outcomes([suite.name for suite in chosen])
    width = max((len(one.name) for one in outcomes), default=0)
    for one in outcomes:
        line = f"{one.name:{width}}  {one.count.whole()} ({one.seconds:.0f} s)"
        say(line, style="red" if one.count.failed else "")
    # The output of the suites, with the whole tracebacks, is long, and may have been cut off by whoever kept it.
    for suite, one in zip(chosen, outcomes):
        # The report of a suite whose files are missing is that of an earlier run.
        if one.count.failed and not suite.missing(project.layout.root):
            for failure in failures_of(project.layout.reports / f"{suite.file_name}.xml"):
                say(f"failed, {suite.name}: {failure}", style="red")
    return sum((one.count for one in outcomes), Count())


def _jobs(suites: Collection[Suite]) -> int:
    cores = os.cpu_count() or 1
    # A suite waits a fifth of its time, for files and for the programs that it starts.
    return cores + max(1, cores // 4) if len(suites) > 1 else cores
