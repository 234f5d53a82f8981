"""Turning the series into commits, without touching a working tree.

The commits are made on an index of their own, so that a conflict or Ctrl-C leaves the checkout as it
was, and depend on base, entries and overlay only, so that the same input gives the same commit ids.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from fork_tool.base.pin import Pin
from fork_tool.common.errors import ConflictError, ForkToolError
from fork_tool.common.git import ADDRESS, AUTHOR, Git
from fork_tool.series.entries import Entry
from fork_tool.series.overlay import OverlayFile

OverlayReader = Callable[[str, str], OverlayFile]

_FAILED = re.compile(r"error: patch failed: (.*):(\d+)$")
_NO_FILE = re.compile(r"error: (.*): (does not exist in index|No such file or directory)$")
_CHECKING = re.compile(r"Checking patch (.*)\.\.\.$")
_OFFSET = re.compile(r"Hunk #(\d+) succeeded at (\d+) \(offset (-?\d+) lines?\)\.$")


@dataclass
class Layer:
    """One entry as a commit."""

    entry: Entry
    commit: str
    offsets: list[str] = field(default_factory=list)


@dataclass
class Stack:
    """The whole series as commits on the base."""

    base: str
    layers: list[Layer]

    @property
    def tip(self) -> str:
        return self.layers[-1].commit if self.layers else self.base


@contextmanager
def scratch_index(git: Git, commit: str) -> Iterator[Git]:
    """The repository with an index of its own that holds `commit`."""
    with tempfile.TemporaryDirectory(prefix="mpsfork-") as directory:
        scratch = git.with_index(Path(directory) / "index")
        scratch.run("read-tree", commit)
        yield scratch


def build_stack(
    git: Git,
    pin: Pin,
    base: str,
    entries: Iterable[Entry],
    overlay: OverlayReader,
    message: Callable[[Entry], str] = Entry.message,
    author: tuple[str, str] = (AUTHOR, ADDRESS),
) -> Stack:
    """Make one commit per entry; raises `ConflictError` naming entry, file and hunk."""
    stack = Stack(base, [])
    with scratch_index(git, base) as scratch:
        for entry in entries:
            offsets = apply_entry(scratch, entry)
            add_overlay(scratch, entry, overlay)
            tree = scratch.text("write-tree")
            commit = git.commit_tree(pin.date, tree, message(entry), (stack.tip,), author)
            stack.layers.append(Layer(entry, commit, offsets))
    return stack


def apply_entry(scratch: Git, entry: Entry) -> list[str]:
    """Put an entry's hunks into the index; returns what had to be moved to fit."""
    files = entry.files()
    if not files:
        return []
    done = scratch.run("apply", "--cached", "--verbose", "-", data=entry.diff, check=False)
    said = done.stderr.decode("utf-8", "replace").splitlines()
    if done.returncode:
        raise ConflictError("; ".join(_conflicts(entry, said)))
    return list(_offsets(said))


def _offsets(said: list[str]) -> Iterator[str]:
    path = ""
    for line in said:
        checking = _CHECKING.match(line)
        if checking:
            path = checking[1]
        moved = _OFFSET.match(line)
        if moved:
            yield f"{path}, hunk {moved[1]}: {moved[3]} lines from where it should be"


def _conflicts(entry: Entry, said: list[str]) -> Iterator[str]:
    files = {file.path: file for file in entry.files()}
    told = False
    for line in said:
        failed, absent = _FAILED.match(line), _NO_FILE.match(line)
        if failed and failed[1] in files:
            hunks = files[failed[1]].hunks
            number = next((index for index, hunk in enumerate(hunks, start=1) if hunk.old_start == int(failed[2])), 0)
            header = f"hunk {number} ({hunks[number - 1].header})" if number else f"the hunk at line {failed[2]}"
            yield f"entry {entry.name} does not apply: {failed[1]}, {header}"
            told = True
        elif absent:
            yield f"entry {entry.name} does not apply: {absent[1]} does not exist in the tree it is applied to"
            told = True
    if not told:
        reason = next((line for line in said if line.startswith(("error:", "fatal:"))), "git apply refused it")
        yield f"entry {entry.name} does not apply: {reason}"


def add_overlay(scratch: Git, entry: Entry, overlay: OverlayReader) -> None:
    """Put the overlay files that an entry claims into the index."""
    lines = []
    for path in entry.overlay:
        file = overlay(path, entry.name)
        blob = scratch.text("hash-object", "-w", "--stdin", data=file.content)
        lines.append(f"{file.mode} {blob}\t{path}\0")
    if not lines:
        return
    _refuse_taken(scratch, entry)
    scratch.run("update-index", "-z", "--add", "--index-info", data="".join(lines).encode("utf-8", "surrogateescape"))


def _refuse_taken(scratch: Git, entry: Entry) -> None:
    """git would put a file in another's place without a word."""
    tracked = set(scratch.names("ls-files", "-z"))
    directories = {str(parent) for path in tracked for parent in PurePosixPath(path).parents}
    for path in entry.overlay:
        above = [str(parent) for parent in PurePosixPath(path).parents]
        if path in tracked or path in directories or tracked.intersection(above):
            raise ForkToolError(
                f"Entry {entry.name} claims the overlay file {path}, and the tree has it already, or a file where it "
                "needs a directory: write the change as a hunk, or let one entry alone claim the file."
            )
