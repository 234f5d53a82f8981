"""An overlay file at each patch: the overlay holds its final content, and the hunks of later patches come off it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from fork_tool.common.errors import ConflictError
from fork_tool.common.git import Git
from fork_tool.series.diffs import FileDiff
from fork_tool.series.overlay import OverlayFile
from fork_tool.series.patches import Patch
from fork_tool.series.scratch import apply_patch, get_files, scratch_index, set_files

OverlayReader = Callable[[str, str], OverlayFile]


@dataclass(frozen=True)
class Misfit:
    """A patch whose hunks do not come off an overlay file."""

    patch: str
    path: str
    sentence: str
    # The later patch that did not come off the same file, which hides whether this one does.
    cause: str = ""


@dataclass
class History:
    """The overlay files that each patch brings or changes, as mode and blob, by patch and path."""

    # The patch that brings a file, by path.
    owners: dict[str, str] = field(default_factory=dict)
    files: dict[str, dict[str, tuple[str, str]]] = field(default_factory=dict)
    offsets: dict[str, list[str]] = field(default_factory=dict)
    misfits: list[Misfit] = field(default_factory=list)


def read_history(git: Git, patches: list[Patch], overlay: OverlayReader) -> History:
    """Take the patches' hunks off the overlay, the last patch first."""
    history = History()
    places = {patch.name: number for number, patch in enumerate(patches)}
    now: dict[str, tuple[str, str]] = {}
    for patch in patches:
        for path in patch.overlay:
            content = overlay(path, patch.name)
            blob = git.text("hash-object", "-w", "--stdin", data=content.content)
            history.owners.setdefault(path, patch.name)
            now.setdefault(path, (content.mode, blob))
    with scratch_index(git) as scratch:
        set_files(scratch, now)
        for patch in reversed(patches):
            changes = [file for file in patch.files() if file.path in history.owners]
            changed = [file.path for file in changes]
            history.files[patch.name] = {path: now[path] for path in (*patch.overlay, *changed)}
            for file in changes:
                if places[history.owners[file.path]] >= places[patch.name]:
                    sentence = (
                        f"patch {patch.name} changes {file.path}, which patch {history.owners[file.path]} brings: "
                        "only a later patch may change an overlay file"
                    )
                    history.misfits.append(Misfit(patch.name, file.path, sentence))
                else:
                    _take_off(scratch, patch, file, history)
            # Without a path git would list all.
            if changed:
                now |= get_files(scratch, changed)
    return history


def _take_off(scratch: Git, patch: Patch, file: FileDiff, history: History) -> None:
    try:
        offsets = apply_patch(scratch, patch.only([file]), reverse=True)
    except ConflictError as conflict:
        sentence = (
            f"{conflict}: the lines that it leaves are not in aten_mps_overlay/{file.path}. Make the same edit in "
            f"patches/{patch.name}.patch, or make it in build/pytorch and run `make refresh`"
        )
        cause = next((misfit.patch for misfit in history.misfits if misfit.path == file.path), "")
        history.misfits.append(Misfit(patch.name, file.path, sentence, cause))
    else:
        history.offsets.setdefault(patch.name, []).extend(offsets)
