"""The series as it is on a next base: its order, the files of entries that differ there, the entries it has alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fork_tool.common.errors import ForkToolError
from fork_tool.next_base.places import NextPlaces
from fork_tool.series.diffs import FileDiff
from fork_tool.series.entries import Entry, parse_entry, SUFFIX
from fork_tool.series.order import parse_series
from fork_tool.series.overlay import list_overlay, read_overlay
from fork_tool.series.project import Project


@dataclass(frozen=True)
class BaseEntry:
    """An entry on the base."""

    name: str
    files: tuple[FileDiff, ...]
    # Of those, the ones that the base's folder has.
    different: frozenset[str]
    # What it brings, by the path upstream.
    overlay: dict[str, Path]


def base_series(project: Project, places: NextPlaces) -> list[BaseEntry]:
    """The entries in the base's order."""
    names = parse_series(_text(places), places.layout.shown(places.series)).names
    unused = {path.stem for path in places.patches.glob(f"*{SUFFIX}")} - set(names)
    if unused:
        raise ForkToolError(
            f"{places.layout.shown(places.series)} does not name {', '.join(sorted(unused))}, of which "
            f"{places.layout.shown(places.patches)} has a patch: add the name, or remove the patch."
        )
    entries = list(_entries(project, places, names))
    claimed = {path for entry in entries for path in entry.overlay}
    lost = [path for path in list_overlay(places.overlay) if path not in claimed]
    if lost:
        raise ForkToolError(
            f"No entry of {places.layout.shown(places.patches)} claims {', '.join(lost)} of the overlay beside it: "
            "name it in an entry's list, or remove it."
        )
    return entries


def _entries(project: Project, places: NextPlaces, names: list[str]) -> Iterator[BaseEntry]:
    for name in names:
        general = _read(project.layout.patches, name)
        own = _read(places.patches, name)
        if general is None and own is None:
            raise ForkToolError(
                f"{places.layout.shown(places.series)} names the entry {name}, and neither patches/ nor "
                f"{places.layout.shown(places.patches)} has it: correct the name, or bring the file back with git."
            )
        if general is None:
            assert own is not None
            yield BaseEntry(name, tuple(own.files()), frozenset(), _overlay(places.overlay, own))
        elif own is None:
            yield BaseEntry(name, tuple(general.files()), frozenset(), _overlay(project.layout.overlay, general))
        else:
            replaced = {file.path: file for file in own.files()}
            there = [file.path for file in general.files()]
            new = [path for path in replaced if path not in there]
            if new or own.overlay:
                raise ForkToolError(
                    f"{places.layout.shown(places.patches)}/{name}{SUFFIX} is for files of patches/{name}{SUFFIX} that differ "
                    f"on the base, and has {', '.join([*new, *own.overlay])}, which that one does not change: take it out."
                )
            files = tuple(replaced.get(file.path, file) for file in general.files())
            yield BaseEntry(name, files, frozenset(replaced), _overlay(project.layout.overlay, general))


def _overlay(folder: Path, entry: Entry) -> dict[str, Path]:
    for path in entry.overlay:
        read_overlay(folder, path, entry.name)
    return {path: folder / path for path in entry.overlay}


def _read(folder: Path, name: str) -> Entry | None:
    path = folder / f"{name}{SUFFIX}"
    return parse_entry(name, path.read_bytes()) if path.is_file() else None


def _text(places: NextPlaces) -> str:
    try:
        return places.series.read_text("utf-8")
    except FileNotFoundError:
        shown = places.layout.shown(places.series)
        raise ForkToolError(f"{shown} is missing: bring it back with `git checkout -- {shown}`.") from None
