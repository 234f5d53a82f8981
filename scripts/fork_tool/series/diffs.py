"""Reading unified git diffs: which files, which hunks, and whether they are whole.

git does not tell the last: of the seven damaged diffs in `test_formats.py`, `git apply --numstat` takes five without a word.
"""

import re
from dataclasses import dataclass, field

_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_EXTENDED = (
    (b"new file mode", "creates the file"),
    (b"deleted file mode", "deletes the file"),
    (b"rename ", "renames the file"),
    (b"copy ", "copies the file"),
    (b"similarity index", "renames or copies the file"),
    (b"old mode", "changes the file's mode"),
    (b"new mode", "changes the file's mode"),
    (b"GIT binary patch", "changes a binary file"),
    (b"Binary files ", "changes a binary file"),
)


class CorruptDiff(Exception):
    """The text is no whole diff; `line` counts from 1."""

    def __init__(self, line: int, reason: str):
        super().__init__(reason)
        self.line = line
        self.reason = reason


@dataclass
class Hunk:
    """One `@@` part of a file's diff."""

    header: str
    old_start: int
    new_start: int
    context: int = 0
    widest_context: int = 0
    added: int = 0
    removed: int = 0
    # As they are in the diff, each with its mark.
    lines: list[bytes] = field(default_factory=list)

    @property
    def before(self) -> list[bytes]:
        """The lines that it wants, as they are in the file."""
        return self._with(b"-")

    @property
    def after(self) -> list[bytes]:
        """The lines that it leaves in their place."""
        return self._with(b"+")

    def _with(self, mark: bytes) -> list[bytes]:
        return [line[1:] for line in self.lines if line[:1] in (b" ", b"", mark)]

    def places_in(self, lines: list[bytes]) -> list[int]:
        """Where in a file it fits, whatever line its header names."""
        before = self.before
        return [at for at in range(len(lines) - len(before) + 1) if lines[at : at + len(before)] == before]

    def replace_at(self, lines: list[bytes], at: int) -> None:
        """Make the change at one of these places."""
        lines[at : at + len(self.before)] = self.after


@dataclass
class FileDiff:
    path: str
    hunks: list[Hunk] = field(default_factory=list)
    unfit: list[str] = field(default_factory=list)
    # Its part of the diff.
    text: bytes = b""


def parse_diff(diff: bytes) -> list[FileDiff]:
    """Read a whole diff; anything that is not part of one is an error."""
    lines = diff.split(b"\n")
    if lines.pop():
        raise CorruptDiff(len(lines) + 1, "the file ends in the middle of a line")
    files: list[FileDiff] = []
    at = 0
    while at < len(lines):
        if not lines[at].startswith(b"diff --git "):
            raise CorruptDiff(at + 1, "a line that starts with 'diff --git' was expected")
        start = at
        current = FileDiff(_path_of(lines[at], at))
        files.append(current)
        at += 1
        while at < len(lines) and not lines[at].startswith((b"@@ ", b"diff --git ")):
            line = lines[at]
            at += 1
            what = next((said for start, said in _EXTENDED if line.startswith(start)), None)
            if what and what not in current.unfit:
                current.unfit.append(what)
            if line.startswith(b"GIT binary patch"):
                while at < len(lines) and not lines[at].startswith(b"diff --git "):
                    at += 1
            elif line.startswith((b"--- ", b"+++ ")):
                _check_name(line, current.path, at)
            elif not what and not line.startswith(b"index "):
                raise CorruptDiff(at, "it belongs to no hunk")
        while at < len(lines) and lines[at].startswith(b"@@ "):
            at = _read_hunk(lines, at, current)
        if at < len(lines) and not lines[at].startswith(b"diff --git "):
            raise CorruptDiff(at + 1, "the hunk above it has more lines than its header says")
        if not current.hunks and not current.unfit:
            raise CorruptDiff(at, f"{current.path} has no hunk")
        current.text = b"\n".join(lines[start:at]) + b"\n"
    return files


def _path_of(line: bytes, at: int) -> str:
    names = line[len(b"diff --git ") :]
    middle = len(names) // 2
    old, new = names[:middle], names[middle + 1 :]
    if old[:2] == b"a/" and new[:2] == b"b/" and old[2:] == new[2:]:
        return old[2:].decode("utf-8", "replace")
    moved = re.fullmatch(rb'"?a/.*"? "?b/(.*?)"?', names)
    if not moved:
        raise CorruptDiff(at + 1, "it does not name a file as a/… b/…")
    return moved[1].decode("utf-8", "replace")


def _check_name(line: bytes, path: str, number: int) -> None:
    # git ends a name that holds a space with a tab.
    name = line[4:].split(b"\t", 1)[0]
    if name != b"/dev/null" and name[2:].decode("utf-8", "replace") != path:
        raise CorruptDiff(number, f"it names another file than {path}")


def _read_hunk(lines: list[bytes], at: int, into: FileDiff) -> int:
    match = _HUNK.match(lines[at])
    if not match:
        raise CorruptDiff(at + 1, "a hunk header looks like '@@ -1,2 +1,3 @@'")
    old = int(match[2]) if match[2] is not None else 1
    new = int(match[4]) if match[4] is not None else 1
    hunk = Hunk(match[0].decode("ascii"), int(match[1]), int(match[3]))
    run = 0
    at += 1
    while old > 0 or new > 0:
        if at >= len(lines):
            raise CorruptDiff(at, f"the diff ends in the middle of hunk {hunk.header}")
        mark = lines[at][:1]
        if mark in (b" ", b""):
            old, new, run = old - 1, new - 1, run + 1
            hunk.context += 1
            hunk.widest_context = max(hunk.widest_context, run)
        elif mark == b"-":
            old, run = old - 1, 0
            hunk.removed += 1
        elif mark == b"+":
            new, run = new - 1, 0
            hunk.added += 1
        elif mark != b"\\":
            raise CorruptDiff(at + 1, f"it is no line of hunk {hunk.header}, which is shorter than its header says")
        hunk.lines.append(lines[at])
        at += 1
    if old < 0 or new < 0:
        raise CorruptDiff(at, f"hunk {hunk.header} is longer than its header says")
    if at < len(lines) and lines[at][:1] == b"\\":
        at += 1
    into.hunks.append(hunk)
    return at
