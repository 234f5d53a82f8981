"""The command line: each command is one line of the Makefile."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from fork_tool.base import fetch as fetch_module
from fork_tool.base.checkout import BRANCH, GHSTACK_BRANCH
from fork_tool.cli_rebase import drift, rebase
from fork_tool.common.console import complain, hint, note, out, say
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import describe, remove
from fork_tool.common.git import ADDRESS, AUTHOR
from fork_tool.common.processes import exclusive, interrupt_on_termination
from fork_tool.mac_library.make import make_wheel, show_wheel_plan
from fork_tool.machine import doctor as doctor_module
from fork_tool.machine import setup as setup_module
from fork_tool.machine.machine import LACKS, LATER, OK, this_machine
from fork_tool.next_base import run as next_module
from fork_tool.paths import own_layout
from fork_tool.program_help import ProgramCommand
from fork_tool.series import apply as apply_module
from fork_tool.series import export as export_module
from fork_tool.series import ghstack as ghstack_module
from fork_tool.series import refresh as refresh_module
from fork_tool.series import verify as verify_module
from fork_tool.series.project import Project
from fork_tool.suites import each_entry, newer_base, runner, sanitized
from fork_tool.suites import lint_overlay as lint_module
from fork_tool.suites.mutants import run as mutants_module
from fork_tool.suites.numbers import write_numbers
from fork_tool.suites.simulator import make_ready
from fork_tool.suites.unpatched import make_unpatched_ready
from fork_tool.wheel import from_source as wheel_module
from fork_tool.wheel.release_notes import write_release_notes

INTERRUPTED = 130


def _show_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        say(Project(own_layout()).pin.version)
        context.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, expose_value=False, callback=_show_version, help="Show the version.")
@click.pass_context
def cli(context: click.Context) -> None:
    """Keep the MPS command graph series on top of its PyTorch base, and run it."""
    context.obj = context.obj or Project(own_layout())


@cli.command()
@click.option(
    "--checkout",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Use this git checkout of PyTorch instead of fetching one.",
)
@click.option(
    "--source",
    type=click.Choice(["auto", *fetch_module.SOURCES]),
    default="auto",
    show_default=True,
    help="Where to get the base from.",
)
@click.pass_obj
def fetch(project: Project, checkout: Path | None, source: str) -> None:
    """Get PyTorch's source into build/pytorch."""
    sources = fetch_module.SOURCES if source == "auto" else (source,)
    with exclusive(project.layout):
        new = fetch_module.fetch(project, checkout, sources)
    place = project.layout.shown(project.layout.checkout)
    say(f"{place} {'is now' if new else 'was already'} a checkout of PyTorch {project.pin.tag}.")


@cli.command()
@click.option("--force", is_flag=True, help="Put commits aside that are on the branch and not in patches/.")
@click.pass_obj
def apply(project: Project, force: bool) -> None:
    """Lay the series on the checkout, one commit per entry."""
    with exclusive(project.layout):
        if not project.layout.checkout.exists():
            fetch_module.fetch(project)
        result = apply_module.apply_series(project, force)
    for offset in result.offsets:
        note(f"{offset}; look at the place, then `make refresh` writes it down")
    for layer in result.stack.layers:
        say(f"{layer.commit[:12]} {layer.entry.title}")
    place = project.layout.shown(project.layout.checkout)
    count = len(result.stack.layers)
    say(
        f"{count} {'entry' if count == 1 else 'entries'} {'applied to' if result.changed else 'already applied:'} the branch {BRANCH} in {place}."
    )


@cli.command()
@click.option("--force", is_flag=True, help="Write the branch's state over edits of patches/ and overlay.")
@click.pass_obj
def refresh(project: Project, force: bool) -> None:
    """Take the branch's commits back into patches/ and aten_mps_overlay/."""
    with exclusive(project.layout):
        result = refresh_module.refresh_series(project, force)
    for sentence in result.notes:
        note(sentence)
    for path in result.written:
        say(f"wrote   {path}")
    for path in result.removed:
        say(f"removed {path}")
    changed = len(result.written) + len(result.removed)
    say(f"{len(result.entries)} entries; {changed or 'no'} {'file' if changed == 1 else 'files'} changed.")


_STYLES = {
    verify_module.APPLIES: "green",
    verify_module.FUZZ: "yellow",
    verify_module.NOT_CHECKED: "yellow",
}


@cli.command()
@click.pass_obj
def verify(project: Project) -> None:
    """Check that every entry applies and that the series keeps its rules."""
    result = verify_module.verify_series(project)
    table = Table("entry", "state", "hunks", "overlay files", "title")
    for verdict in result.verdicts:
        state = Text(verdict.state, style=_STYLES.get(verdict.state, "bold red"))
        table.add_row(Text(verdict.name), state, str(verdict.hunks), str(verdict.overlay), Text(verdict.title))
    out.print(table)
    problems = [
        f"{verdict.name}: {problem}" for verdict in result.verdicts for problem in verdict.problems
    ] + result.problems
    for problem in problems:
        complain(problem)
    for sentence in result.notes:
        note(sentence)
    for verdict in result.verdicts:
        if verdict.follows:
            note(f"{verdict.name} is not checked: it changes what follows the conflict of {verdict.follows}")
    if not result.good:
        raise ForkToolError(
            f"The series has {len(problems)} {'problem' if len(problems) == 1 else 'problems'}: see above."
        )
    say(f"All {len(result.verdicts)} entries apply and keep the rules.")


def _author(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[str, str]:
    if value is None:
        return AUTHOR, ADDRESS
    match = re.fullmatch(r"\s*([^<>\n]*[^<>\s])\s*<([^<>\s]+@[^<>\s]+)>\s*", value)
    if not match:
        raise click.BadParameter(f"{value!r} is not of the form 'Name <mail@example.org>'.")
    return match[1], match[2]


@cli.command()
@click.option("--ghstack", is_flag=True, help=f"Leave the branch {GHSTACK_BRANCH} in the checkout instead of files.")
@click.option("--force", is_flag=True, help="With --ghstack: put aside a branch that was worked on.")
@click.option(
    "--author",
    metavar="'NAME <MAIL>'",
    callback=_author,
    help="Whose the commits are [default: this series', under an address that does not exist].",
)
@click.pass_obj
def export(project: Project, ghstack: bool, force: bool, author: tuple[str, str]) -> None:
    """Write the series as `git format-patch` files to build/export, or leave it as a branch for ghstack."""
    layout = project.layout
    with exclusive(layout):
        if not ghstack:
            for path in export_module.export_series(project, author):
                say(layout.shown(path))
            # On standard error: the names alone are what scripts read.
            hint(f"{export_module.TAKEN_BY}  # in a clone of upstream; without --keep-non-patch git drops the [MPS]")
            return
        stack = ghstack_module.leave_branch(project, force, author)
    for layer in stack.layers:
        say(f"{layer.commit[:12]} {layer.entry.title}")
    shown = layout.shown(layout.checkout)
    say(
        f"{len(stack.layers)} commits on the branch {GHSTACK_BRANCH} in {shown}; docs/upstreaming.md says how they go on."
    )
    if stack.base != project.pin.commit:
        note(f"{shown} comes from the Debian tarball and has no history of upstream's; submit from a clone")


_STATES = {OK: "green", LATER: "yellow", LACKS: "bold red"}


@cli.command()
@click.pass_obj
def doctor(project: Project) -> None:
    """Show what this machine has and lacks, and how to mend it."""
    findings = doctor_module.examine(project)
    table = Table("what", "state", "found", "mended by")
    for finding in findings:
        table.add_row(
            finding.name, Text(finding.state, style=_STATES[finding.state]), Text(finding.detail), Text(finding.remedy)
        )
    out.print(table)
    lacking = [finding.name for finding in findings if finding.state == LACKS]
    if lacking:
        raise ForkToolError(f"This machine lacks {', '.join(lacking)}: the last column says what mends it.")
    say("Nothing is lacking.")


@cli.command()
@click.pass_obj
def setup(project: Project) -> None:
    """Install what this machine lacks: packages, ObjFW, the virtual environment."""
    with exclusive(project.layout):
        for done in setup_module.setup(project):
            say(done)
    say("This machine has all that is needed.")


@cli.command()
@click.option("--base-only", is_flag=True, help="Build it on the base without the series, in build/simulator-base.")
@click.option(
    "--checkout",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Build it on these sources of PyTorch, as they are, in build/simulator-own.",
)
@click.pass_obj
def simulator(project: Project, base_only: bool, checkout: Path | None) -> None:
    """Build the Metal simulator with the patched MPS backend (Linux)."""
    if base_only and checkout:
        raise ForkToolError("--base-only makes a checkout, --checkout names one: give one of the two.")
    if base_only or checkout:
        build = make_unpatched_ready(project, checkout)
        say(f"Programs run on it with `.venv/bin/python -m mps_simulator --build {project.layout.shown(build)} …`.")
    else:
        make_ready(project)


@cli.command(cls=ProgramCommand, program=("test/demo/run.py",))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def demo(project: Project, arguments: tuple[str, ...]) -> int:
    """Capture and replay real models; arguments go to test/demo/run.py."""
    return runner.run_demo(project, arguments)


@cli.command(cls=ProgramCommand, program=("test/sweep/run.py",))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def sweep(project: Project, arguments: tuple[str, ...]) -> int:
    """Capture and replay every operator of the database; arguments go to test/sweep/run.py."""
    return runner.run_sweep(project, arguments)


@cli.command(cls=ProgramCommand, program=("test/benchmark/run.py",))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def bench(project: Project, arguments: tuple[str, ...]) -> int:
    """Time 100 configurations, eager and replayed; arguments go to test/benchmark/run.py."""
    return runner.run_bench(project, arguments)


@cli.command(cls=ProgramCommand, program=("test/real_models/run.py",))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def models(project: Project, arguments: tuple[str, ...]) -> int:
    """Compare models of public libraries, captured and compiled, with eager; arguments go to test/real_models/run.py."""
    return runner.run_models(project, arguments)


@cli.command("graph-caching", cls=ProgramCommand, program=("test/graph_caching/run.py",))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def graph_caching(project: Project, arguments: tuple[str, ...]) -> int:
    """Count what the executable cache keeps; arguments go to test/graph_caching/run.py."""
    return runner.run_graph_caching(project, arguments)


@cli.command("fallback-bench", cls=ProgramCommand, program=(runner.FALLBACK_BENCH, "bench"))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def fallback_bench(project: Project, arguments: tuple[str, ...]) -> int:
    """Measure what operators without an MPS kernel cost; arguments go to scripts/fallback_bench."""
    return runner.run_fallback_bench(project, arguments)


@cli.command("fallback-percentage", cls=ProgramCommand, program=(runner.FALLBACK_BENCH, "percentage"))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def fallback_percentage(project: Project, arguments: tuple[str, ...]) -> int:
    """Say how much of MODULE:FUNCTION falls back to the CPU."""
    return runner.run_fallback_percentage(project, arguments)


@cli.command("fallback-sync", cls=ProgramCommand, program=(runner.FALLBACK_BENCH, "sync"))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def fallback_sync(project: Project, arguments: tuple[str, ...]) -> int:
    """Bring the requests for operators up to date with GitHub; needs GH_TOKEN."""
    return runner.run_fallback_sync(project, arguments)


@cli.command()
@click.option("--suite", "suites", multiple=True, metavar="NAME", help="Run this suite only; may be given again.")
@click.pass_obj
def test(project: Project, suites: tuple[str, ...]) -> int:
    """Run all suites of tests; the last line counts them."""
    count = runner.run_suites(project, suites)
    say(str(count))
    return 1 if count.failed else 0


@cli.command("test-mps", cls=ProgramCommand, program=("-m", "mps_simulator.run_test_mps"))
@click.option(
    "--macos", multiple=True, metavar="VERSION", help="Simulate this version of macOS [default: 15.2 and 14.5]."
)
@click.option("--more", is_flag=True, help="Run upstream's other tests that take the device [at 15.2].")
@click.option("--captured", is_flag=True, help="Capture and replay each operator, and compare with eager.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def test_mps(project: Project, macos: tuple[str, ...], more: bool, captured: bool, arguments: tuple[str, ...]) -> int:
    """Run upstream's whole test/test_mps.py; the reports are build/reports/test_mps_VERSION.json."""
    return runner.run_upstream_tests(project, arguments, macos, more, captured)


@cli.command("test-sanitized")
@click.option(
    "--sanitizer",
    type=click.Choice(list(sanitized.KINDS)),
    default="address",
    show_default=True,
    help="address finds undefined behaviour too.",
)
@click.option("--suite", "suites", multiple=True, metavar="NAME", help="Run this suite only; may be given again.")
@click.pass_obj
def test_sanitized(project: Project, sanitizer: str, suites: tuple[str, ...]) -> int:
    """Run tests on a build of simulator and backend that reports errors of memory, arithmetic or threads."""
    count = runner.run_sanitized(project, sanitizer, suites)
    say(str(count))
    return 1 if count.failed else 0


@cli.command("test-entries")
@click.option("--entry", "entries", multiple=True, metavar="NAME", help="Only at this entry; may be given again.")
@click.pass_obj
def test_entries(project: Project, entries: tuple[str, ...]) -> int:
    """Build the simulator at every entry and run the entry's own tests there, without the later entries (Linux)."""
    outcomes = each_entry.test_entries(project, entries)
    bad = [outcome.entry for outcome in outcomes if not outcome.good]
    if bad:
        raise ForkToolError(f"Not good by themselves: {', '.join(bad)}.")
    say(f"{len(outcomes)} entries build and pass without the later ones.")
    return 0


@cli.command()
@click.option("--mutant", "names", multiple=True, metavar="NAME", help="Only this one; may be given again.")
@click.option("--resume", is_flag=True, help="Leave out what the last report has of the same sources.")
@click.option("--list", "listed", is_flag=True, help="Show all mutants, and run none.")
@click.option("--report", type=click.Path(path_type=Path), metavar="FILE", help="[default: build/reports/mutants.json]")
@click.option(
    "--page", type=click.Path(path_type=Path), metavar="FILE", help="[default: docs/mutants.md, of a whole run]"
)
@click.pass_obj
def mutants(
    project: Project, names: tuple[str, ...], resume: bool, listed: bool, report: Path | None, page: Path | None
) -> int:
    """Plant one small fault after the other in engine and checks, and see which suite notices (Linux)."""
    if listed:
        mutants_module.show_list(mutants_module.choose(project, names))
        return 0
    verdicts = mutants_module.run_mutants(project, names, resume, report, page)
    mutants_module.show(verdicts)
    return 0 if all(verdict.good for verdict in verdicts) else 1


@cli.command("test-newer")
@click.option("--no-faults", is_flag=True, help="Only the suites that must pass, not the faults that they must notice.")
@click.option(
    "--report", type=click.Path(path_type=Path), metavar="FILE", help="[default: build/reports/newer_base.json]"
)
@click.pass_obj
def test_newer(project: Project, no_faults: bool, report: Path | None) -> int:
    """Run the capture tests on a base that does what newer ones do, and see that they notice faults there (Linux)."""
    outcomes = newer_base.run_newer(project, not no_faults, report)
    return 0 if all(outcome.good for outcome in outcomes) else 1


@cli.command("lint-overlay")
@click.pass_obj
def lint_overlay(project: Project) -> int:
    """Compile the overlay's C++ with every warning an error, and run clang-tidy's bugprone checks on it (Linux)."""
    machine = this_machine()
    if not machine.runs_simulator:
        raise ForkToolError("The overlay is looked at as the simulator's build compiles it: run this on Linux x86-64.")
    make_ready(project, machine)
    with exclusive(project.layout):
        for package in setup_module.install_packages(project, machine, [lint_module.CLANG_TIDY]):
            say(f"installed {package}")
    return 1 if lint_module.lint(project.layout) else 0


def _options(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    for value in values:
        if not re.fullmatch(r"[A-Z][A-Z0-9_]*=.*", value):
            raise click.BadParameter(f"{value!r} is not of the form NAME=VALUE, like USE_DISTRIBUTED=1.")
    return dict(value.split("=", 1) for value in values)


@cli.command()
@click.option("--dry-run", is_flag=True, help="Show commands and environment; run and write nothing. Works everywhere.")
@click.option("--jobs", type=click.IntRange(min=1), help="Compilers at once [default: as many as fit in the memory].")
@click.option(
    "--set",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_options,
    help="With --from-source, tell setup.py this, over base.toml; may be given again.",
)
@click.option("--python", metavar="X.Y", help="The version of Python that the wheel is for [default: this one's].")
@click.option("--from-source", is_flag=True, help="Compile all of torch, on a Mac.")
@click.option("--no-device", is_flag=True, help="With --from-source, on a Mac without a GPU: check no capture.")
@click.pass_obj
def wheel(
    project: Project,
    dry_run: bool,
    jobs: int | None,
    options: dict[str, str],
    python: str | None,
    from_source: bool,
    no_device: bool,
) -> None:
    """Make torch's wheel with the series for a Mac, and check it; a run that was cut off goes on."""
    if not from_source:
        if no_device:
            raise ForkToolError(
                "--no-device is for the check of --from-source: the other wheel is made and checked without a device anyway."
            )
        if options:
            raise ForkToolError("--set is for setup.py, which only --from-source runs: give both or neither.")
        if dry_run:
            show_wheel_plan(project, python, jobs)
            return
        with exclusive(project.layout):
            make_wheel(project, python, jobs)
        return
    if python is not None:
        raise ForkToolError(
            "--python is for the wheel that is made of the official one: --from-source takes the Python it runs on; "
            "`rm -r .venv`, then MPSFORK_PYTHON=/path/to/python in the environment, chooses that one."
        )
    if dry_run:
        wheel_module.show_plan(project, options, jobs, not no_device)
        return
    wheel_module.refuse_other_machines(this_machine())
    with exclusive(project.layout):
        wheel_module.build_wheel(project, options, jobs, device=not no_device)


@cli.command("release-notes")
@click.pass_obj
def release_notes(project: Project) -> None:
    """Write the notes of the version that base.toml names: CHANGELOG.md's section, base, entries, wheels in dist/."""
    path = write_release_notes(project)
    say(f"The notes of {project.pin.version} are in {project.layout.shown(path)}.")


@cli.command()
@click.pass_obj
def numbers(project: Project) -> None:
    """Write what the last `make demo` and `make test` showed into README.md."""
    for written in write_numbers(project):
        say(f"README.md has {written}.")


@cli.command("test-next", context_settings={"ignore_unknown_options": True})
@click.option("--base", metavar="NAME", help="The folder of bases/ [default: the newest release there].")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def test_next(project: Project, base: str | None, arguments: tuple[str, ...]) -> int:
    """Say how far the series goes on another release, from that release's wheels, and test that; arguments are pytest's."""
    return next_module.run_next(project, base, arguments)


@cli.command()
@click.option("--checkout", is_flag=True, help="Remove build/pytorch too, with every commit in it.")
@click.pass_obj
def clean(project: Project, checkout: bool) -> None:
    """Remove what was built; the checkout stays unless asked for."""
    layout = project.layout
    # Of the last one a rebase of the series that is under way needs what was resolved there.
    kept = (layout.checkout, layout.base_checkout, layout.rebase_checkout)
    with exclusive(layout):
        for path in sorted(layout.build.iterdir()):
            if path.name != ".lock" and (checkout or path not in kept):
                remove(path)
                say(f"removed {layout.shown(path)}")


cli.add_command(rebase)
cli.add_command(drift)


def main() -> None:
    """Run a command; every foreseen failure is one sentence."""
    interrupt_on_termination()
    try:
        status = cli.main(prog_name="mpsfork", standalone_mode=False)
    except ForkToolError as problem:
        complain(str(problem))
        sys.exit(1)
    except click.ClickException as problem:
        problem.show()
        sys.exit(problem.exit_code)
    except OSError as problem:
        complain(describe(problem))
        sys.exit(1)
    except (KeyboardInterrupt, click.Abort):
        complain("Stopped; the next run takes up where this one left off.")
        sys.exit(INTERRUPTED)
    sys.exit(status if isinstance(status, int) else 0)
