"""Turning the series into commits, without touching a working tree.

The commits are made on an index of their own, so that a conflict or Ctrl-C leaves the checkout as it
was, and depend on base, patches and overlay only, so that the same input gives the same commit ids.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from fork_tool.base.pin import Pin
from fork_tool.common.errors import ConflictError, ForkToolError
from fork_tool.common.git import ADDRESS, AUTHOR, Git
from fork_tool.series.entries import Entry
from fork_tool.series.history import History, OverlayReader, read_history
from fork_tool.series.scratch import apply_entry, scratch_index, set_files


@dataclass
class Layer:
    entry: Entry
    commit: str
    offsets: list[str] = field(default_factory=list)


@dataclass
class Stack:
    base: str
    layers: list[Layer]

    @property
    def tip(self) -> str:
        return self.layers[-1].commit if self.layers else self.base


def build_stack(
    git: Git,
    pin: Pin,
    base: str,
    entries: Iterable[Entry],
    overlay: OverlayReader,
    message: Callable[[Entry], str] = Entry.message,
    author: tuple[str, str] = (AUTHOR, ADDRESS),
) -> Stack:
    """Make one commit per patch; raises `ConflictError` naming patch, file and hunk."""
    stack = Stack(base, [])
    entries = list(entries)
    history = read_history(git, entries, overlay)
    if history.misfits:
        raise ConflictError("; ".join(misfit.sentence for misfit in history.misfits if not misfit.cause))
    with scratch_index(git, base) as scratch:
        for entry in entries:
            offsets = apply_entry(scratch, entry.without(history.owners)) + history.offsets.get(entry.name, [])
            add_overlay(scratch, entry, history)
            tree = scratch.text("write-tree")
            commit = git.commit_tree(pin.date, tree, message(entry), (stack.tip,), author)
            stack.layers.append(Layer(entry, commit, offsets))
    return stack


def add_overlay(scratch: Git, entry: Entry, history: History) -> None:
    """Put the overlay files that a patch brings or changes into the index, as they are at this patch."""
    files = history.files[entry.name]
    if not files:
        return
    _refuse_taken(scratch, entry)
    set_files(scratch, files)


def _refuse_taken(scratch: Git, entry: Entry) -> None:
    """git would put a file in another's place without a word."""
    tracked = set(scratch.names("ls-files", "-z"))
    directories = {str(parent) for path in tracked for parent in PurePosixPath(path).parents}
    for path in entry.overlay:
        above = [str(parent) for parent in PurePosixPath(path).parents]
        if path in tracked or path in directories or tracked.intersection(above):
            raise ForkToolError(
                f"Patch {entry.name} claims the overlay file {path}, and the tree has it already, or a file where it "
                "needs a directory: write the change as a hunk, or let one patch alone claim the file."
            )
