"""An overlay file at each patch: the overlay holds its final content, and the hunks of later patches come off it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from fork_tool.common.errors import ConflictError
from fork_tool.common.git import Git
from fork_tool.series.diffs import FileDiff
from fork_tool.series.entries import Entry
from fork_tool.series.overlay import OverlayFile
from fork_tool.series.scratch import apply_entry, get_files, scratch_index, set_files

OverlayReader = Callable[[str, str], OverlayFile]


@dataclass(frozen=True)
class Misfit:
    """A patch whose hunks do not come off an overlay file."""

    entry: str
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


def read_history(git: Git, entries: list[Entry], overlay: OverlayReader) -> History:
    """Take the patches' hunks off the overlay, the last patch first."""
    history = History()
    places = {entry.name: number for number, entry in enumerate(entries)}
    now: dict[str, tuple[str, str]] = {}
    for entry in entries:
        for path in entry.overlay:
            content = overlay(path, entry.name)
            blob = git.text("hash-object", "-w", "--stdin", data=content.content)
            history.owners.setdefault(path, entry.name)
            now.setdefault(path, (content.mode, blob))
    with scratch_index(git) as scratch:
        set_files(scratch, now)
        for entry in reversed(entries):
            changes = [file for file in entry.files() if file.path in history.owners]
            changed = [file.path for file in changes]
            history.files[entry.name] = {path: now[path] for path in (*entry.overlay, *changed)}
            for file in changes:
                if places[history.owners[file.path]] >= places[entry.name]:
                    sentence = (
                        f"patch {entry.name} changes {file.path}, which patch {history.owners[file.path]} brings: "
                        "only a later patch may change an overlay file"
                    )
                    history.misfits.append(Misfit(entry.name, file.path, sentence))
                else:
                    _take_off(scratch, entry, file, history)
            # Without a path git would list all.
            if changed:
                now |= get_files(scratch, changed)
    return history


def _take_off(scratch: Git, entry: Entry, file: FileDiff, history: History) -> None:
    try:
        offsets = apply_entry(scratch, entry.only([file]), reverse=True)
    except ConflictError as conflict:
        sentence = (
            f"{conflict}: the lines that it leaves are not in aten_mps_overlay/{file.path}. Make the same edit in "
            f"patches/{entry.name}.patch, or make it in build/pytorch and run `make refresh`"
        )
        cause = next((misfit.entry for misfit in history.misfits if misfit.path == file.path), "")
        history.misfits.append(Misfit(entry.name, file.path, sentence, cause))
    else:
        history.offsets.setdefault(entry.name, []).extend(offsets)
