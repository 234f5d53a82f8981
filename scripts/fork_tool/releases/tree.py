"""The series as it is on a release, laid on the headers and Python files of the release's wheel."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import write_if_changed
from fork_tool.releases.release import ReleasePlaces
from fork_tool.series.diffs import FileDiff
from fork_tool.series.order import read_series
from fork_tool.series.overlay import list_overlay, read_overlay
from fork_tool.series.patches import parse_patch, Patch, SUFFIX
from fork_tool.series.project import Project


@dataclass(frozen=True)
class ReleasePatch:
    name: str
    files: tuple[FileDiff, ...]
    # Of those, the ones that the release's folder has.
    different: frozenset[str]
    # What it brings, by the path upstream.
    overlay: dict[str, Path]


def release_series(project: Project, places: ReleasePlaces) -> list[ReleasePatch]:
    """The patches in the release's order."""
    names = read_series(places.series, places.layout.shown(places.series)).names
    unused = {path.stem for path in places.patches.glob(f"*{SUFFIX}")} - set(names)
    if unused:
        raise ForkToolError(
            f"{places.layout.shown(places.series)} does not name {', '.join(sorted(unused))}, of which "
            f"{places.layout.shown(places.patches)} has a patch: add the name, or remove the patch."
        )
    patches = list(_patches(project, places, names))
    claimed = {path for patch in patches for path in patch.overlay}
    # The overlay has the later patches' hunks on its files already.
    patches = [
        replace(patch, files=tuple(file for file in patch.files if file.path not in claimed)) for patch in patches
    ]
    lost = [path for path in list_overlay(places.overlay) if path not in claimed]
    if lost:
        raise ForkToolError(
            f"No patch of {places.layout.shown(places.patches)} claims {', '.join(lost)} of the overlay beside it: "
            "name it in a patch's list, or remove it."
        )
    return patches


def _patches(project: Project, places: ReleasePlaces, names: list[str]) -> Iterator[ReleasePatch]:
    for name in names:
        general = _read(project.layout.patches, name)
        own = _read(places.patches, name)
        if general is None and own is None:
            raise ForkToolError(
                f"{places.layout.shown(places.series)} names the patch {name}, and neither patches/ nor "
                f"{places.layout.shown(places.patches)} has it: correct the name, or bring the file back with git."
            )
        if general is None:
            assert own is not None
            yield ReleasePatch(name, tuple(own.files()), frozenset(), _overlay(places.overlay, own))
        elif own is None:
            yield ReleasePatch(name, tuple(general.files()), frozenset(), _overlay(project.layout.overlay, general))
        else:
            replaced = {file.path: file for file in own.files()}
            there = [file.path for file in general.files()]
            new = [path for path in replaced if path not in there]
            if new or own.overlay:
                raise ForkToolError(
                    f"{places.layout.shown(places.patches)}/{name}{SUFFIX} is for files of patches/{name}{SUFFIX} that differ "
                    f"on the release, and has {', '.join([*new, *own.overlay])}, which that one does not change: take it out."
                )
            files = tuple(replaced.get(file.path, file) for file in general.files())
            yield ReleasePatch(name, files, frozenset(replaced), _overlay(project.layout.overlay, general))


def _overlay(folder: Path, patch: Patch) -> dict[str, Path]:
    for path in patch.overlay:
        read_overlay(folder, path, patch.name)
    return {path: folder / path for path in patch.overlay}


def _read(folder: Path, name: str) -> Patch | None:
    path = folder / f"{name}{SUFFIX}"
    return parse_patch(name, path.read_bytes()) if path.is_file() else None


APPLIED, DIFFERS, NOT_IN_WHEEL, MISFIT = "applied", "differs", "not in the wheel", "does not fit"
# What the build writes around a header when it is installed: the first line, and the last four.
_GUARD = b"#if !defined(TORCH_STABLE_ONLY)"
_GUARD_LINES = 4
_INSTALLED = "torch/include/"


@dataclass(frozen=True)
class HunkVerdict:
    file: str
    header: str
    state: str
    # Lines between where the patch says and where it fits.
    moved: int = 0
    detail: str = ""


@dataclass(frozen=True)
class PatchVerdict:
    """What became of a patch; files that the wheel does not have can't be checked with it."""

    name: str
    hunks: tuple[HunkVerdict, ...]
    overlay: int

    def count(self, state: str) -> int:
        """How many hunks ended so."""
        return sum(hunk.state == state for hunk in self.hunks)

    @property
    def misfits(self) -> list[HunkVerdict]:
        return [hunk for hunk in self.hunks if hunk.state == MISFIT]


def installed_path(path: str) -> str:
    if path.startswith("aten/src/"):
        return _INSTALLED + path.removeprefix("aten/src/")
    if path.startswith("torch/csrc/api/include/"):
        return _INSTALLED + path
    if path.startswith(("torch/csrc/", "c10/")):
        return _INSTALLED + path
    # Made of the template, with whose lines the series' hunks deal.
    return "torch/_C/__init__.pyi" if path == "torch/_C/__init__.pyi.in" else path


def source_lines(content: bytes) -> list[bytes]:
    """A file's lines as in the sources: without what was written around a header."""
    lines = content.split(b"\n")
    return lines[1 : -_GUARD_LINES - 1] + [b""] if lines[0].startswith(_GUARD) else lines


def apply_file(file: FileDiff, lines: list[bytes], state: str) -> list[HunkVerdict]:
    """Apply the hunks to the lines, in place; one that fits nowhere, or in several places, is left out and told."""
    verdicts = []
    shift = 0
    for hunk in file.hunks:
        found = hunk.places_in(lines)
        if len(found) == 1:
            hunk.replace_at(lines, found[0])
            verdicts.append(HunkVerdict(file.path, hunk.header, state, found[0] + 1 - hunk.old_start - shift))
        else:
            where = f"in {len(found)} places of" if found else "nowhere in"
            verdicts.append(HunkVerdict(file.path, hunk.header, MISFIT, detail=f"its lines are {where} the file"))
        shift += hunk.added - hunk.removed
    return verdicts


def apply_series(
    patches: Iterable[ReleasePatch], read: Callable[[str], bytes | None]
) -> tuple[list[PatchVerdict], dict[str, bytes]]:
    """Apply what can be; `read` gives a file of the wheel. Returns what became of the patches, and the files."""
    lines: dict[str, list[bytes] | None] = {}
    verdicts = []
    for patch in patches:
        hunks: list[HunkVerdict] = []
        for file in patch.files:
            if file.path not in lines:
                content = read(installed_path(file.path))
                lines[file.path] = None if content is None else source_lines(content)
            there = lines[file.path]
            if there is None:
                hunks += [HunkVerdict(file.path, hunk.header, NOT_IN_WHEEL) for hunk in file.hunks]
            else:
                hunks += apply_file(file, there, DIFFERS if file.path in patch.different else APPLIED)
        verdicts.append(PatchVerdict(patch.name, tuple(hunks), len(patch.overlay)))
    return verdicts, {path: b"\n".join(found) for path, found in lines.items() if found is not None}


def lay_tree(places: ReleasePlaces, patches: Iterable[ReleasePatch], files: dict[str, bytes]) -> None:
    """Write the patched files and the overlay; what did not change keeps its date, so that it is not compiled again."""
    wanted = dict(files)
    for patch in patches:
        wanted |= {path: source.read_bytes() for path, source in patch.overlay.items()}
    for path in [path for path in places.tree.rglob("*") if path.is_file()]:
        if str(path.relative_to(places.tree)) not in wanted:
            path.unlink()
    for name, content in wanted.items():
        write_if_changed(places.tree / name, content)


def reader(wheel: Path) -> Callable[[str], bytes | None]:
    def read(path: str) -> bytes | None:
        file = wheel / path
        return file.read_bytes() if file.is_file() else None

    return read
