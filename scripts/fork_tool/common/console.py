"""Everything that reaches the terminal passes through here."""

import shlex
from collections.abc import Sequence

from rich import progress
from rich.console import Console
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
    """`counted(1, "patches")` is "1 patch"."""
    one = f"{things.removesuffix('ies')}y" if things.endswith("ies") else things.removesuffix("s")
    return f"{count} {one if count == 1 else things}"


def _progress(*columns: progress.ProgressColumn) -> progress.Progress:
    """A progress bar, shown on terminals only."""
    columns = (progress.TextColumn("{task.description}"), progress.BarColumn(), *columns)
    return progress.Progress(*columns, console=out, disable=not out.is_terminal, transient=True)


def byte_progress() -> progress.Progress:
    """A progress bar for something measured in bytes."""
    return _progress(progress.DownloadColumn(), progress.TransferSpeedColumn(), progress.TimeRemainingColumn())


def count_progress() -> progress.Progress:
    """A progress bar for things that are counted, whose number may be unknown."""
    return _progress(progress.MofNCompleteColumn(), progress.TimeRemainingColumn())
