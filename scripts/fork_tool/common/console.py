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
    ProgressColumn,
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


def counted(count: int, things: str) -> str:
    """`counted(1, "entries")` is "1 entry"."""
    one = f"{things.removesuffix('ies')}y" if things.endswith("ies") else things.removesuffix("s")
    return f"{count} {one if count == 1 else things}"


def _progress(*columns: ProgressColumn) -> Progress:
    """A progress bar, shown on terminals only."""
    columns = (TextColumn("{task.description}"), BarColumn(), *columns)
    return Progress(*columns, console=out, disable=not out.is_terminal, transient=True)


def byte_progress() -> Progress:
    """A progress bar for something measured in bytes."""
    return _progress(DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())


def seconds_progress() -> Progress:
    """A progress bar for a wait of known length."""
    return _progress(TimeRemainingColumn())


def count_progress() -> Progress:
    """A progress bar for things that are counted, whose number may be unknown."""
    return _progress(MofNCompleteColumn(), TimeRemainingColumn())
