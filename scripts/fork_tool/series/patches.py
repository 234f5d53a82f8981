"""A patch of the series: one change as upstream would review it, kept in `patches/<name>.patch`.

    [MPS] Title of the change

    Why it exists, what it does, how it was tested.

    Overlay:
      aten/src/ATen/mps/NewFile.h
      aten/src/ATen/mps/NewFile.mm

    Hunks: 3

    diff --git a/… b/…

The header is the commit's message, the `Overlay:` list names the whole new files that the patch
brings, and the diff holds its hunks on files that upstream has or an earlier patch brings. Each part but the title may be empty. `Hunks:`
counts the hunks that follow, so that a file that was cut is known, even one that was cut above its diff.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from fork_tool.common.errors import ForkToolError
from fork_tool.series.diffs import CorruptDiff, FileDiff, parse_diff

TITLE_MARK = "[MPS] "
SUFFIX = ".patch"
_OVERLAY_LINE = "Overlay:"
_HUNKS = re.compile(r"Hunks: *(\d+) *")
_TRAILER = re.compile(r"Patch: *([a-z0-9][a-z0-9_.-]*) *")


@dataclass(frozen=True)
class Patch:
    """One patch: its message, the overlay files it brings, its hunks."""

    name: str
    title: str
    body: str
    overlay: tuple[str, ...] = ()
    diff: bytes = b""
    diff_line: int = field(default=1, compare=False)
    # How many hunks the header says there are, if it does.
    counted: int | None = field(default=None, compare=False)

    def files(self) -> list[FileDiff]:
        try:
            found = parse_diff(self.diff)
        except CorruptDiff as problem:
            line = self.diff_line + problem.line - 1
            raise ForkToolError(
                f"patches/{self.name}{SUFFIX} is corrupted at line {line}: {problem.reason}; "
                f"bring it back with `git checkout -- patches/{self.name}{SUFFIX}`, or `make refresh` from a checkout that has it applied."
            ) from None
        there = sum(len(file.hunks) for file in found)
        if self.counted not in (None, there):
            raise ForkToolError(
                f"patches/{self.name}{SUFFIX} has {there} of the {self.counted} hunks that its header counts: "
                f"bring it back with `git checkout -- patches/{self.name}{SUFFIX}`, or after an edit write `Hunks: {there}`."
            )
        return found

    def only(self, files: Iterable[FileDiff]) -> Patch:
        """The same patch with its hunks on these files alone."""
        return replace(self, diff=b"".join(file.text for file in files), counted=None)

    def without(self, paths: Container[str]) -> Patch:
        """The same patch without its hunks on these files."""
        return self.only(file for file in self.files() if file.path not in paths)

    def text(self) -> bytes:
        """The patch file."""
        parts = [self.title]
        if self.body:
            parts.append(self.body)
        if self.overlay:
            parts.append("\n".join([_OVERLAY_LINE, *(f"  {path}" for path in self.overlay)]))
        parts.append(f"Hunks: {sum(len(file.hunks) for file in parse_diff(self.diff))}")
        header = "\n\n".join(parts) + "\n"
        return header.encode("utf-8") + (b"\n" + self.diff if self.diff else b"")

    def message(self, trailer: bool = True) -> str:
        """The commit's message; the trailer is how `refresh` knows the patch again."""
        parts = [self.title]
        if self.body:
            parts.append(self.body)
        if trailer:
            parts.append(f"Patch: {self.name}")
        return "\n\n".join(parts) + "\n"


def parse_patch(name: str, content: bytes) -> Patch:
    shown = f"patches/{name}{SUFFIX}"
    diff = re.search(rb"^diff --git ", content, re.MULTILINE)
    if content and not content.endswith(b"\n") and not diff:
        raise ForkToolError(
            f"{shown} is corrupted: it ends in the middle of a line; bring it back with `git checkout -- {shown}`."
        )
    start = diff.start() if diff else len(content)
    try:
        header = content[:start].decode("utf-8")
    except UnicodeDecodeError:
        raise ForkToolError(
            f"{shown} is corrupted: its header is not UTF-8 text; bring it back with `git checkout -- {shown}`."
        ) from None
    lines = [line.rstrip() for line in header.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    counted = None
    if lines and (record := _HUNKS.fullmatch(lines[-1])):
        counted = int(record[1])
        lines.pop()
    claims: list[str] = []
    if _OVERLAY_LINE in lines:
        at = lines.index(_OVERLAY_LINE)
        for number, line in enumerate(lines[at + 1 :], start=at + 2):
            if not line:
                continue
            if not line.startswith(" "):
                raise ForkToolError(
                    f"{shown}, line {number}: after `{_OVERLAY_LINE}` only indented paths may follow, one a line, up to the diff; move other text above it."
                )
            claims.append(line.strip())
        lines = lines[:at]
    title, body = split_message("\n".join(lines))
    return Patch(name, title, body, tuple(claims), content[start:], header.count("\n") + 1, counted)


def split_message(message: str) -> tuple[str, str]:
    """Title and body, with blank lines and trailing blanks in their plainest form."""
    lines = [line.rstrip() for line in message.replace("\r\n", "\n").strip().split("\n")]
    body = "\n".join(lines[1:]).strip("\n")
    return lines[0].strip(), re.sub(r"\n{3,}", "\n\n", body)


def parse_message(message: str) -> tuple[str | None, str, str]:
    """Name (if the commit tells it), title and body of a commit's message."""
    title, body = split_message(message)
    paragraphs = body.split("\n\n")
    name = None
    kept = []
    for line in paragraphs[-1].split("\n"):
        match = _TRAILER.fullmatch(line)
        if match:
            name = match[1]
        else:
            kept.append(line)
    paragraphs[-1] = "\n".join(kept)
    return name, title, "\n\n".join(paragraphs).strip("\n")


def check_header(title: str, body: str, what: str) -> None:
    """Refuse a message that a patch file could not hold."""
    for line in (title, *body.split("\n")):
        if line == _OVERLAY_LINE or line.startswith("diff --git "):
            raise ForkToolError(
                f"The message of {what} has a line {line!r}, which marks a part of a patch file: word it differently with `git commit --amend`."
            )


def name_from_title(title: str, taken: set[str]) -> str:
    """A name for a new patch that says what its title says."""
    words = re.sub(r"^\[[^\]]*\]", "", title).lower()
    stem = re.sub(r"[^a-z0-9]+", "-", words).strip("-")[:50].strip("-") or "patch"
    name, count = stem, 1
    while name in taken:
        count += 1
        name = f"{stem}-{count}"
    return name


def read_patch(patches: Path, name: str) -> Patch:
    path = patches / f"{name}{SUFFIX}"
    try:
        return parse_patch(name, path.read_bytes())
    except FileNotFoundError:
        known = ", ".join(sorted(found.stem for found in patches.glob(f"*{SUFFIX}"))) or "none"
        raise ForkToolError(
            f"patches/series names the patch {name}, and there is no patches/{name}{SUFFIX} (there: {known}): correct the name, or bring the file back with git."
        ) from None
