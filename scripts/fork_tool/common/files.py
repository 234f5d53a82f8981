"""Writing files so that a reader never sees half of one."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from fork_tool.common.errors import ForkToolError
from fork_tool.common.processes import uninterrupted

SCRATCH = ".mpsfork-"


def write_atomically(path: Path, content: bytes, executable: bool = False) -> None:
    """Replace `path` by `content` in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=SCRATCH, dir=path.parent)
    scratch = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        scratch.chmod(0o755 if executable else 0o644)
        scratch.replace(path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


def write_if_changed(path: Path, content: bytes) -> None:
    """The same unless it is like that already, so that nothing is built again for it."""
    if not path.is_file() or path.read_bytes() != content:
        write_atomically(path, content)


@contextlib.contextmanager
def new_directory(into: Path) -> Iterator[Path]:
    """An empty directory to fill, which takes the place of `into` at the end of the block; after an error it is gone.

    What killed runs left is removed, so two runs may not fill the same directory at once.
    """
    into.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{into.name}-partial-"
    for leftover in into.parent.iterdir():
        if leftover.name.startswith(prefix):
            remove(leftover)
    new = Path(tempfile.mkdtemp(prefix=prefix, dir=into.parent))
    try:
        yield new
        # Made for its owner alone.
        new.chmod(0o755)
        with uninterrupted():
            remove(into)
            new.replace(into)
    except BaseException:
        remove(new)
        raise


_STAMP = ".mpsfork-stamp"


def is_filled(folder: Path, wanted: object) -> bool:
    """Whether a folder was filled for this."""
    stamp = folder / _STAMP
    return stamp.is_file() and stamp.read_text() == _digest(wanted)


def mark_filled(folder: Path, wanted: object) -> None:
    """The folder is complete: from now on `is_filled` says so."""
    write_atomically(folder / _STAMP, _digest(wanted).encode())


def _digest(wanted: object) -> str:
    return hashlib.sha256(repr(wanted).encode()).hexdigest()


def fill_once(folder: Path, wanted: object, fill: Callable[[Path], None]) -> bool:
    """Fill a new directory in the place of `folder`; false if it was filled for the same."""
    if is_filled(folder, wanted):
        return False
    with new_directory(folder) as new:
        fill(new)
        mark_filled(new, wanted)
    return True


def remove(path: Path) -> None:
    """Remove a file, a link (never what it points to) or a directory with all in it."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def remove_empty_parents(path: Path, stop: Path) -> None:
    """Remove the directories above `path` that have become empty, up to but without `stop`."""
    for parent in path.parents:
        if parent == stop or stop not in parent.parents:
            return
        try:
            parent.rmdir()
        except OSError:
            return


def need_space(directory: Path, needed: int, purpose: str) -> None:
    """Fail before the work starts when the disk cannot hold its result."""
    existing = directory
    while not existing.exists():
        existing = existing.parent
    free = shutil.disk_usage(existing).free
    if free < needed:
        raise ForkToolError(
            f"{purpose} needs {needed / 1e9:.1f} GB in {directory}, and {free / 1e9:.1f} GB are free: make room and run it again."
        )


def describe(problem: OSError) -> str:
    """Say what an operating system error means for the user."""
    where = f" at {problem.filename}" if problem.filename else ""
    if problem.errno == errno.ENOSPC:
        return f"The disk is full{where}: make room and run the command again; what is complete is kept."
    if problem.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"No permission to write{where}: give this user the right to write there, or use a copy of the repository that is yours."
    return f"The operating system refused{where}: {problem.strerror or problem}."
