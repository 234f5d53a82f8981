"""The overlay: whole new files at their upstream paths."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fork_tool.common.errors import ForkToolError

# What editors and tools leave behind; never part of the overlay.
_LITTER_DIRECTORIES = {"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"}
# Longer than any source of upstream's that was written by hand.
_LARGEST = 1_000_000
_LITTER_ENDINGS = ("~", ".swp", ".pyc", ".orig", ".rej", ".DS_Store")
# Where upstream has tests.
TESTS = ("test/", "aten/src/ATen/test/")


@dataclass(frozen=True)
class OverlayFile:
    content: bytes
    executable: bool = False

    @property
    def mode(self) -> str:
        return "100755" if self.executable else "100644"


def list_overlay(directory: Path) -> list[str]:
    """All paths of the overlay, as upstream would name them."""
    return sorted(_walk(directory, directory))


def _walk(directory: Path, root: Path) -> Iterator[str]:
    if not directory.is_dir():
        return
    for item in os.scandir(directory):
        if item.is_dir(follow_symlinks=False):
            if item.name not in _LITTER_DIRECTORIES:
                yield from _walk(Path(item.path), root)
        elif not item.name.endswith(_LITTER_ENDINGS) and not item.name.startswith(".mpsfork-"):
            yield Path(item.path).relative_to(root).as_posix()


def read_overlay(directory: Path, path: str, patch: str) -> OverlayFile:
    check_path(path, patch)
    file = directory / path
    if file.is_symlink():
        raise ForkToolError(f"{directory.name}/{path} is a symbolic link: put the file itself there.")
    try:
        return OverlayFile(file.read_bytes(), bool(file.stat().st_mode & 0o100))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise ForkToolError(
            f"Patch {patch} claims the overlay file {directory.name}/{path}, which is missing: bring it back with `git checkout -- {directory.name}/{path}`, or take the line out of patches/{patch}.patch."
        ) from None


def problem_of_content(content: bytes) -> str:
    """What keeps a file from being source that a reviewer can read, if anything does."""
    if len(content) > _LARGEST:
        return f"has {len(content) / 1e6:.1f} MB: the overlay holds sources, of {_LARGEST / 1e6:.0f} MB at most; let a test make such data, or download it"
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return "is not UTF-8 text: the overlay holds sources, nothing binary"
    return "holds NUL bytes: the overlay holds sources, nothing binary" if "\0" in text else ""


def check_path(path: str, patch: str) -> None:
    """Refuse a claim that leads out of the tree."""
    parts = path.split("/")
    if path.startswith("/") or any(part in ("", ".", "..", ".git") for part in parts):
        raise ForkToolError(
            f"Patch {patch} claims {path!r}, which is no path inside the upstream tree: write it as aten/src/…."
        )
