"""Everything that reaches the terminal passes through here."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def say(sentence: str, style: str = "") -> None:
    """Print one line; brackets in it are text, not markup."""
    out.print(Text(sentence, style=style))


def note(sentence: str) -> None:
    """Print a line that the user may want to act on."""
    out.print(Text.assemble(("note: ", "yellow"), sentence))


def hint(sentence: str) -> None:
    """Print a line beside the output that scripts read."""
    err.print(Text(sentence, style="dim"))


def complain(sentence: str) -> None:
    """Print the sentence of an error."""
    err.print(Text.assemble(("error: ", "bold red"), sentence))


def show_command(command: Sequence[object], where: str = "") -> None:
    """Print a command before it is run, so that it can be repeated by hand."""
    line = shlex.join(str(word) for word in command)
    say(f"$ {f'(cd {where}) ' if where else ''}{line}", style="dim")


def byte_progress() -> Progress:
    """A progress bar for something measured in bytes; shown on terminals only."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=out,
        disable=not out.is_terminal,
        transient=True,
    )


def seconds_progress() -> Progress:
    """A progress bar for a wait of known length; shown on terminals only."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeRemainingColumn(),
        console=out,
        disable=not out.is_terminal,
        transient=True,
    )


def count_progress() -> Progress:
    """A progress bar for things that are counted, whose number may be unknown; shown on terminals only."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=out,
        disable=not out.is_terminal,
        transient=True,
    )
