"""The commands that run suites, mutants or programs on the device, or build what they run on."""

from collections.abc import Callable
from pathlib import Path

import click

from fork_tool.common.console import say
from fork_tool.common.errors import ForkToolError
from fork_tool.common.help import ProgramCommand
from fork_tool.common.processes import exclusive
from fork_tool.machine import setup as setup_module
from fork_tool.series.project import Project
from fork_tool.suites import as_release, each_patch, runner
from fork_tool.suites import lint_overlay as lint_module
from fork_tool.suites.mutants import run as mutants_module
from fork_tool.suites.reports import Count
from fork_tool.suites.simulator import make_ready, make_unpatched_ready, simulator_machine

_PATH = click.Path(path_type=Path)


@click.command()
@click.option("--base-only", is_flag=True, help="Build it without the series, in build/simulator-base.")
@click.option("--tests", is_flag=True, help="Also build the test programs, as `test` does.")
@click.pass_obj
def simulator(project: Project, base_only: bool, tests: bool) -> None:
    """Build the Metal simulator with the patched MPS backend (Linux)."""
    if base_only:
        build = make_unpatched_ready(project, tests)
        say(f"Run a program on it with `.venv/bin/python -m mps_simulator --build {project.layout.shown(build)} …`.")
    else:
        make_ready(project, tests=tests, always=True)


def _status(count: Count) -> int:
    say(str(count))
    return 1 if count.failed else 0


@click.command()
@click.argument("suites", nargs=-1, metavar="[SUITE]...")
@click.option("--all", "everything", is_flag=True, help="Run every suite.")
@click.option(
    "--jobs",
    type=click.IntRange(1),
    metavar="CORES",
    help="The number of cores to fill; 1 runs one suite after the other [default: 1.25 times the number of cores].",
)
@click.pass_obj
def test(project: Project, suites: tuple[str, ...], everything: bool, jobs: int | None) -> int:
    """Test that it works on this machine; or run every suite, or suites by name (test/README.md)."""
    if suites and everything:
        raise ForkToolError("Give either names of suites or --all.")
    return _status(runner.run_suites(project, suites, jobs=jobs, everything=everything))


@click.command("test-mps", cls=ProgramCommand, program=("-m", "mps_simulator.run_test_mps"))
@click.option(
    "--macos", multiple=True, metavar="VERSION", help="Simulate this version of macOS [default: 15.2 and 14.5]."
)
@click.option("--more", is_flag=True, help="Run upstream's device-generic tests instead, as macOS 15.2.")
@click.option("--captured", is_flag=True, help="Capture and replay each operator, and compare with eager.")
@click.option(
    "--ported", is_flag=True, help="Run upstream's tests of CUDA graph trees and of compile backends, ported to MPS."
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def test_mps(
    project: Project, macos: tuple[str, ...], more: bool, captured: bool, ported: bool, arguments: tuple[str, ...]
) -> int:
    """Run upstream's test/test_mps.py and write build/reports/test_mps_VERSION.json."""
    return runner.run_upstream_tests(project, arguments, macos, more, captured, ported)


@click.command("test-patches")
@click.option("--patch", "patches", multiple=True, metavar="NAME", help="Test only this patch; may be given again.")
@click.pass_obj
def test_patches(project: Project, patches: tuple[str, ...]) -> None:
    """Test every patch with only the patches that it needs (Linux)."""
    outcomes = each_patch.test_patches(project, patches)
    bad = [outcome.patch for outcome in outcomes if not outcome.good]
    if bad:
        raise ForkToolError(f"These patches do not build or pass with only those that they need: {', '.join(bad)}.")
    say(f"{len(outcomes)} patches build and pass with only those that they need.")


@click.command("test-as-release")
@click.option("--no-faults", is_flag=True, help="Skip the runs with planted faults, in which a suite must fail.")
@click.pass_obj
def test_as_release(project: Project, no_faults: bool) -> int:
    """Run the capture tests on a PyTorch that behaves like a newer release (Linux)."""
    outcomes = as_release.run_as_release(project, not no_faults)
    return 0 if all(outcome.good for outcome in outcomes) else 1


@click.command()
@click.option("--mutant", "names", multiple=True, metavar="NAME", help="Only this mutant; may be given again.")
@click.option("--resume", is_flag=True, help="Skip the mutants that the last report of the same sources has.")
@click.option("--list", "listed", is_flag=True, help="List all mutants and run none.")
@click.option("--report", type=_PATH, metavar="FILE", help="[default: build/reports/mutants.json]")
@click.pass_obj
def mutants(project: Project, names: tuple[str, ...], resume: bool, listed: bool, report: Path | None) -> int:
    """Introduce small faults one at a time and report which suite notices (Linux)."""
    if listed:
        mutants_module.show_list(mutants_module.choose(project, names))
        return 0
    verdicts = mutants_module.run_mutants(project, names, resume, report)
    mutants_module.show(verdicts)
    return 0 if all(verdict.good for verdict in verdicts) else 1


@click.command("lint-overlay")
@click.pass_obj
def lint_overlay(project: Project) -> int:
    """Compile the overlay with -Werror and run clang-tidy on it (Linux)."""
    machine = simulator_machine()
    make_ready(project, machine)
    with exclusive(project.layout):
        for package in setup_module.install_packages(project, machine, [lint_module.CLANG_TIDY]):
            say(f"installed {package}")
    return 1 if lint_module.lint(project.layout) else 0


def _program(name: str, help: str, *words: str, run: Callable[..., int] = runner.run_program) -> click.Command:
    """A command that starts a program, and passes its arguments on to it."""

    @click.command(name, cls=ProgramCommand, program=words, help=help)
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    @click.pass_obj
    def command(project: Project, arguments: tuple[str, ...]) -> int:
        return run(project, *words, *arguments)

    return command


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@setup_module.YES
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED, metavar="SCRIPT [ARGUMENTS]...")
@click.pass_obj
def run(project: Project, program: tuple[str, ...]) -> None:
    """Run a Python program on the device; on Linux on the simulator.

    SCRIPT is a file, or -m and the name of a module. The program gets this command's standard input, and this command
    exits with the program's status.
    """
    if not program[0].startswith("-") and not Path(program[0]).is_file():
        raise ForkToolError(f"There is no file {program[0]} in {Path.cwd()}.")
    runner.become_program(project, *program)


_FALLBACK_BENCH = "scripts/fallback_bench/run.py"
PROGRAMS = (
    run,
    _program("demo", "Capture and replay real models, and compare them with eager.", "test/programs/demo/run.py"),
    _program("sweep", "Capture and replay every operator of the OpInfo database.", "test/programs/sweep/run.py"),
    _program(
        "without-kernel",
        "Compile the operators without an MPS kernel, and compare them with the CPU.",
        "test/programs/sweep/without_kernel.py",
    ),
    _program("bench", "Time 100 configurations, eager and replayed.", "test/programs/benchmark/run.py"),
    _program(
        "real-models",
        "Compare captured and compiled library models with eager.",
        "test/programs/real_models/run.py",
        run=runner.run_with_models,
    ),
    _program(
        "programs",
        "Compare training, serving and other programs, compiled, with eager.",
        "test/programs/real_models/run_programs.py",
        run=runner.run_with_models,
    ),
    _program("graph-caching", "Count hits and misses of the executable cache.", "test/programs/graph_caching/run.py"),
    _program("fallback-bench", "Measure the cost of operators without an MPS kernel.", _FALLBACK_BENCH, "bench"),
    _program(
        "fallback-percentage",
        "Report how much of MODULE:FUNCTION falls back to the CPU.",
        _FALLBACK_BENCH,
        "percentage",
    ),
    _program(
        "fallback-sync",
        "Count operator requests on GitHub again; needs GH_TOKEN.",
        *(_FALLBACK_BENCH, "sync"),
        run=runner.run_without_device,
    ),
)
