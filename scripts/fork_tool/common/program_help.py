"""Commands that pass their arguments to a program: their help shows the program's, and makes nothing for it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import click

from fork_tool.paths import own_layout

# What a program imports before it reads its arguments may be slow, on a busy machine.
_SECONDS = 120.0


class ProgramCommand(click.Command):
    """A command that hands unknown arguments to a program; `program` is how it is started, after the interpreter."""

    def __init__(self, *arguments: Any, program: tuple[str, ...], **options: Any):
        options["context_settings"] = {"ignore_unknown_options": True} | options.get("context_settings", {})
        super().__init__(*arguments, **options)
        self.program = program

    def get_help(self, ctx: click.Context) -> str:
        """Its own help, then the program's."""
        shown = " ".join(word for word in self.program if word != "-m")
        said = help_of(self.program)
        if said is None:
            return f"{super().get_help(ctx)}\n\nThe options of {shown} can be shown when `make setup` has run."
        return f"{super().get_help(ctx)}\n\nArguments are passed on to {shown}:\n\n{said}"


def help_of(program: tuple[str, ...]) -> str | None:
    """What a program says of itself, or none where it lacks what it imports."""
    layout = own_layout()
    path = [str(layout.simulator_source), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(part for part in path if part),
        "PYTHONDONTWRITEBYTECODE": "1",
        "MPS_SIMULATOR": "0",
    }
    try:
        done = subprocess.run(
            [sys.executable, *program, "--help"],
            cwd=layout.root,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
