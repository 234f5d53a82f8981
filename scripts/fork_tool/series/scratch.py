"""An index of its own, in which a patch's hunks go on or come off without touching a working tree."""

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from fork_tool.common.errors import ConflictError
from fork_tool.common.git import Git
from fork_tool.series.patches import Patch

_FAILED = re.compile(r"error: patch failed: (.*):(\d+)$")
_NO_FILE = re.compile(r"error: (.*): (does not exist in index|No such file or directory)$")
_CHECKING = re.compile(r"Checking patch (.*)\.\.\.$")
_OFFSET = re.compile(r"Hunk #(\d+) succeeded at (\d+) \(offset (-?\d+) lines?\)\.$")


@contextmanager
def scratch_index(git: Git, commit: str = "--empty") -> Iterator[Git]:
    """The repository with an index of its own that holds `commit`, or nothing."""
    with tempfile.TemporaryDirectory(prefix="mpsfork-") as directory:
        scratch = Git(git.directory, Path(directory) / "index")
        scratch.run("read-tree", commit)
        yield scratch


def get_files(scratch: Git, paths: Iterable[str]) -> dict[str, tuple[str, str]]:
    found = {}
    for line in scratch.names("ls-files", "-z", "--stage", "--", *paths):
        head, _, path = line.partition("\t")
        mode, blob, _stage = head.split(" ")
        found[path] = mode, blob
    return found


def set_files(scratch: Git, files: Mapping[str, tuple[str, str]]) -> None:
    lines = "".join(f"{mode} {blob}\t{path}\0" for path, (mode, blob) in files.items())
    scratch.run("update-index", "-z", "--add", "--index-info", data=lines.encode("utf-8", "surrogateescape"))


def apply_patch(scratch: Git, patch: Patch, reverse: bool = False) -> list[str]:
    """Put a patch's hunks into the index, or take them off; returns what had to be moved to fit."""
    files = patch.files()
    if not files:
        return []
    words = ("apply", "--cached", "--verbose", *(["--reverse"] if reverse else []), "-")
    done = scratch.run(*words, data=patch.diff, check=False)
    said = done.stderr.decode("utf-8", "replace").splitlines()
    if done.returncode:
        raise ConflictError("; ".join(_conflicts(patch, said, reverse)))
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


def _conflicts(patch: Patch, said: list[str], reverse: bool) -> Iterator[str]:
    fails = f"patch {patch.name} does not {'come off the overlay' if reverse else 'apply'}"
    files = {file.path: file for file in patch.files()}
    told = False
    for line in said:
        failed, absent = _FAILED.match(line), _NO_FILE.match(line)
        if failed and failed[1] in files:
            hunks = files[failed[1]].hunks
            starts = [hunk.new_start if reverse else hunk.old_start for hunk in hunks]
            number = starts.index(int(failed[2])) + 1 if int(failed[2]) in starts else 0
            header = f"hunk {number} ({hunks[number - 1].header})" if number else f"the hunk at line {failed[2]}"
            yield f"{fails}: {failed[1]}, {header}"
            told = True
        elif absent:
            yield f"{fails}: {absent[1]} does not exist in the tree it is applied to"
            told = True
    if not told:
        reason = next((line for line in said if line.startswith(("error:", "fatal:"))), "git apply refused it")
        yield f"{fails}: {reason}"
