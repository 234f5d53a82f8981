"""One run at a time changes the checkout or the tool chain."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from fork_tool.console import note
from fork_tool.paths import Layout


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
