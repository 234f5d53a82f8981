"""Running programs that the user watches: builds, tests, installers."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from fork_tool.console import out, show_command
from fork_tool.errors import ForkToolError

_GRACE_SECONDS = 10.0


def run_shown(
    command: Sequence[str], directory: Path, environment: dict[str, str] | None = None, where: str = ""
) -> int:
    """Print a command, run it in the foreground and return its exit status."""
    show_command(command, where)
    out.file.flush()
    try:
        process = subprocess.Popen(command, cwd=directory, env=environment, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise ForkToolError(f"{command[0]} is not installed: run `make setup`.") from None
    try:
        return process.wait()
    except KeyboardInterrupt:
        _put_down(process)
        raise


def _put_down(process: subprocess.Popen[bytes]) -> None:
    # The terminal has told it too: let it tidy up first.
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            process.send_signal(number)
        try:
            process.wait(_GRACE_SECONDS)
            return
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            continue
