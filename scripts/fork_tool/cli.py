"""The command line: the commands of all packages in one group, and how errors end."""

from __future__ import annotations

import sys

import click

from fork_tool.base.commands import clean, fetch
from fork_tool.common.command_group import SectionedGroup
from fork_tool.common.console import complain, say
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import describe
from fork_tool.common.processes import interrupt_on_termination
from fork_tool.mac_library.commands import wheel
from fork_tool.machine.commands import doctor, setup
from fork_tool.next_base.commands import test_next
from fork_tool.paths import own_layout
from fork_tool.rebase.commands import drift, rebase
from fork_tool.series.commands import apply, export, refresh, verify
from fork_tool.series.project import Project
from fork_tool.suites import commands, programs
from fork_tool.suites.mutants.commands import mutants
from fork_tool.wheel.commands import release_notes

INTERRUPTED = 130


def _show_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        say(Project(own_layout()).pin.version)
        context.exit()


@click.group(cls=SectionedGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, expose_value=False, callback=_show_version, help="Show the version.")
@click.pass_context
def cli(context: click.Context) -> None:
    """Keep the MPS command graph series on top of its PyTorch base, and run it."""
    context.obj = context.obj or Project(own_layout())


cli.add_section("This machine", [doctor, setup])
cli.add_section("The base", [fetch, clean])
cli.add_section("The series", [apply, refresh, verify, export])
cli.add_section("Another base", [drift, rebase, test_next])
cli.add_section(
    "Tests",
    [
        commands.simulator,
        commands.test,
        commands.test_mps,
        commands.test_sanitized,
        commands.test_entries,
        commands.test_newer,
        mutants,
        commands.lint_overlay,
    ],
)
cli.add_section(
    "Programs on the device",
    [
        programs.demo,
        programs.sweep,
        programs.state,
        programs.bench,
        programs.models,
        programs.graph_caching,
        programs.fallback_bench,
        programs.fallback_percentage,
        programs.fallback_sync,
    ],
)
cli.add_section("The wheel and the release", [wheel, release_notes])


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
