"""Programs that the user watches, Ctrl-C, and other runs of this tool."""

import contextlib
import fcntl
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from fork_tool.common.console import note, out, show_command
from fork_tool.common.errors import ForkToolError
from fork_tool.paths import Layout

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
        put_down([process])
        raise


@contextmanager
def standard_output_to_error() -> Iterator[None]:
    """In the block the output of this process and of others that it starts goes to standard error."""
    out.file.flush()
    with os.fdopen(os.dup(1), "wb") as kept:
        os.dup2(2, 1)
        try:
            yield
        finally:
            out.file.flush()
            os.dup2(kept.fileno(), 1)


def output_of(command: Sequence[str], **options: Any) -> str | None:
    """What a program prints; none if it is not there, fails or takes longer than `timeout`."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, **options)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def start_logged(
    command: Sequence[str], directory: Path, environment: dict[str, str], log: Path
) -> subprocess.Popen[bytes]:
    """Start a command in the background; what it prints goes to the file."""
    try:
        with log.open("wb") as stream:
            return subprocess.Popen(
                command, cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream
            )
    except FileNotFoundError:
        raise ForkToolError(f"{command[0]} is not installed: run `make setup`.") from None


def put_down(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End what still runs after Ctrl-C, which a terminal has told these processes too: they may tidy up first."""
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        for process in processes:
            if number is not None and process.poll() is None:
                process.send_signal(number)
        if _all_end(processes):
            return


def _all_end(processes: Sequence[subprocess.Popen[bytes]]) -> bool:
    deadline = time.monotonic() + _GRACE_SECONDS
    try:
        for process in processes:
            process.wait(max(0.0, deadline - time.monotonic()))
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        return False
    return True


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C and termination back until the block is done, then deliver them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    caught: list[int] = []

    def remember(number: int, _frame: FrameType | None) -> None:
        caught.append(number)

    before = {number: signal.signal(number, remember) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if caught:
        raise KeyboardInterrupt


def interrupt_on_termination() -> None:
    """Treat SIGTERM like Ctrl-C, so that unfinished work is cleaned up."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)


@contextmanager
def exclusive(layout: Layout) -> Iterator[None]:
    """Wait for another run to end, then keep others out; the system frees the lock of a dead run."""
    layout.build.mkdir(parents=True, exist_ok=True)
    with (layout.build / ".lock").open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            note("another run of this tool is at work here; waiting for it to end")
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield
