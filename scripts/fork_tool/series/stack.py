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
from fork_tool.series.history import History, OverlayReader, read_history
from fork_tool.series.patches import Patch
from fork_tool.series.scratch import apply_patch, scratch_index, set_files


@dataclass
class Layer:
    patch: Patch
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
    patches: Iterable[Patch],
    overlay: OverlayReader,
    message: Callable[[Patch], str] = Patch.message,
    author: tuple[str, str] = (AUTHOR, ADDRESS),
) -> Stack:
    """Make one commit per patch; raises `ConflictError` naming patch, file and hunk."""
    stack = Stack(base, [])
    patches = list(patches)
    history = read_history(git, patches, overlay)
    if history.misfits:
        raise ConflictError("; ".join(misfit.sentence for misfit in history.misfits if not misfit.cause))
    with scratch_index(git, base) as scratch:
        for patch in patches:
            offsets = apply_patch(scratch, patch.without(history.owners)) + history.offsets.get(patch.name, [])
            add_overlay(scratch, patch, history)
            tree = scratch.text("write-tree")
            commit = git.commit_tree(pin.date, tree, message(patch), (stack.tip,), author)
            stack.layers.append(Layer(patch, commit, offsets))
    return stack


def add_overlay(scratch: Git, patch: Patch, history: History) -> None:
    """Put the overlay files that a patch brings or changes into the index, as they are at this patch."""
    files = history.files[patch.name]
    if not files:
        return
    _refuse_taken(scratch, patch)
    set_files(scratch, files)


def _refuse_taken(scratch: Git, patch: Patch) -> None:
    """git would put a file in another's place without a word."""
    tracked = set(scratch.names("ls-files", "-z"))
    directories = {str(parent) for path in tracked for parent in PurePosixPath(path).parents}
    for path in patch.overlay:
        above = [str(parent) for parent in PurePosixPath(path).parents]
        if path in tracked or path in directories or tracked.intersection(above):
            raise ForkToolError(
                f"Patch {patch.name} claims the overlay file {path}, and the tree has it already, or a file where it "
                "needs a directory: write the change as a hunk, or let one patch alone claim the file."
            )
