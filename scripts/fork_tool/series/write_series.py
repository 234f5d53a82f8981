"""Writing a series into patches/ and aten_mps_overlay/; files that stay the same are not touched."""

from dataclasses import dataclass, field
from pathlib import Path

from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import remove_empty_parents, write_atomically
from fork_tool.series.order import SeriesFile
from fork_tool.series.overlay import OverlayFile
from fork_tool.series.patches import Patch, read_patch, SUFFIX
from fork_tool.series.project import Project


@dataclass
class Written:
    """Which files were written and removed, as the user would type them."""

    written: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)


def earlier_claims(project: Project, series: SeriesFile, notes: list[str]) -> set[str]:
    claims: set[str] = set()
    for name in series.names:
        try:
            claims.update(read_patch(project.layout.patches, name).overlay)
        except ForkToolError:
            notes.append(
                f"patches/{name}{SUFFIX} could not be read; overlay files that it alone claimed are left where they are."
            )
    return claims


def refuse_unclaimed(project: Project, claims: set[str], files: dict[str, OverlayFile]) -> None:
    """Refuse to write over an overlay file that no patch brought there."""
    for path, file in files.items():
        there = project.layout.overlay / path
        if path not in claims and there.exists() and _differs(there, file):
            raise ForkToolError(
                f"{project.layout.shown(there)} is claimed by no patch and differs from the branch's file: move it away, or `scripts/mpsfork refresh --force` to write over it."
            )


def write_series(
    project: Project, series: SeriesFile, claims: set[str], patches: list[Patch], files: dict[str, OverlayFile]
) -> Written:
    """Make patches/ and overlay hold these patches; `claims` are overlay files that may go when none has them."""
    layout = project.layout
    result = Written()
    wanted = {layout.overlay / path: file for path, file in files.items()}
    wanted |= {layout.patches / f"{patch.name}{SUFFIX}": OverlayFile(patch.text()) for patch in patches}
    names = [patch.name for patch in patches]
    wanted[layout.series] = OverlayFile(series.reordered(names).text().encode("utf-8"))
    for path, file in wanted.items():
        if _differs(path, file):
            write_atomically(path, file.content, file.executable)
            result.written.append(layout.shown(path))
    stale = [layout.overlay / path for path in sorted(claims - set(files))]
    stale += [layout.patches / f"{name}{SUFFIX}" for name in series.names if name not in names]
    for path in stale:
        if path.is_file():
            path.unlink()
            remove_empty_parents(path, layout.overlay if layout.overlay in path.parents else layout.patches)
            result.removed.append(layout.shown(path))
    return result


def _differs(path: Path, file: OverlayFile) -> bool:
    try:
        return (
            path.is_symlink()
            or path.read_bytes() != file.content
            or bool(path.stat().st_mode & 0o100) != file.executable
        )
    except OSError:
        return True
