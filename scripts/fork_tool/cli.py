"""The command line: the commands of all packages in one group, and how errors end."""

import click

from fork_tool import commands
from fork_tool.common.console import say
from fork_tool.common.help import run_command_line, SectionedGroup
from fork_tool.common.processes import interrupt_on_termination
from fork_tool.mac_library.make import wheel
from fork_tool.paths import own_layout
from fork_tool.releases.make import test_release
from fork_tool.series.project import Project
from fork_tool.suites import commands as suites


def _show_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        say(Project(own_layout()).pin.version)
        context.exit()


@click.group(cls=SectionedGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, expose_value=False, callback=_show_version, help="Show the version.")
@click.pass_context
def cli(context: click.Context) -> None:
    """Build, test and move the series of patches that adds graphs to PyTorch's MPS backend."""
    context.obj = context.obj or Project(own_layout())


cli.add_section("This machine", [commands.doctor, commands.setup])
cli.add_section("PyTorch's source", [commands.fetch, commands.clean])
cli.add_section("The series", [commands.apply, commands.refresh, commands.verify, commands.export])
cli.add_section("Another PyTorch", [commands.drift, commands.rebase, test_release])
cli.add_section("Tests", [suites.simulator, suites.test, suites.test_mps, suites.test_patches])
cli.add_section("Tests", [suites.test_as_release, suites.mutants, suites.lint_overlay])
cli.add_section("Programs on the device", suites.PROGRAMS)
cli.add_section("The wheel", [wheel])


def main() -> None:
    interrupt_on_termination()
    run_command_line(cli, "mpsfork", "Stopped; the next run takes up where this one left off.")
