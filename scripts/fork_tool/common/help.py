"""Command lines: commands under headings, the help of programs that arguments go to, and how errors end."""

import os
import sys
from collections.abc import Iterable
from typing import Any

import click

from fork_tool.common.console import complain
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import describe
from fork_tool.common.processes import output_of
from fork_tool.paths import own_layout

INTERRUPTED = 130

# What a program imports before it reads its arguments may be slow, on a busy machine.
_SECONDS = 120.0


class SectionedGroup(click.Group):
    """Commands are added a section at a time, and shown in that order."""

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        self.sections: dict[str, list[str]] = {}

    def add_section(self, title: str, commands: Iterable[click.Command]) -> None:
        names = self.sections.setdefault(title, [])
        for command in commands:
            self.add_command(command)
            names.append(str(command.name))

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order of the sections."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one list per section, with each command's whole summary, which click would cut."""
        # One width for all lists aligns their second columns.
        width = max(len(name) for name in self.commands)
        for title, names in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), self.commands[name].help or "") for name in names])


class ProgramCommand(click.Command):
    """A command that hands unknown arguments to a program; `program` is how it is started, after the interpreter."""

    def __init__(self, *arguments: Any, program: tuple[str, ...], **options: Any):
        options["context_settings"] = {"ignore_unknown_options": True}
        super().__init__(*arguments, **options)
        self.program = program

    def get_help(self, ctx: click.Context) -> str:
        shown = " ".join(word for word in self.program if word != "-m")
        said = help_of(self.program)
        if said is None:
            return f"{super().get_help(ctx)}\n\nThe options of {shown} can be shown when `make setup` has run."
        return f"{super().get_help(ctx)}\n\nArguments are passed on to {shown}:\n\n{said}"


def help_of(program: tuple[str, ...]) -> str | None:
    """What a program says of itself, or none where it lacks what it imports."""
    layout = own_layout()
    path = [str(layout.simulator_source), os.environ.get("PYTHONPATH", "")]
    variables = {
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "MPS_SIMULATOR": "0",
    }
    command = [sys.executable, *program, "--help"]
    return output_of(command, cwd=layout.root, env=os.environ | variables, timeout=_SECONDS)


def run_command_line(group: click.Group, name: str, stopped: str) -> None:
    """Run a command; every foreseen failure is one sentence, and `stopped` that of Ctrl-C."""
    try:
        status = group.main(prog_name=name, standalone_mode=False)
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
        complain(stopped)
        sys.exit(INTERRUPTED)
    sys.exit(status if isinstance(status, int) else 0)
