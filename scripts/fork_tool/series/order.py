"""`patches/series`: the order of the patches, one name a line; `#` starts a comment, `[name]` a group.

A patch of the first group needs all patches before it. A patch of a later group needs the first group, and the
patches that are named after it: `name: other another`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from fork_tool.common.errors import ForkToolError

NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")
_GROUP = re.compile(r"\[([a-z]+)\]")


@dataclass
class SeriesFile:
    """The names in order, with the lines (comments, blanks) that stand around them."""

    names: list[str] = field(default_factory=list)
    heading: list[str] = field(default_factory=list)
    above: dict[str, list[str]] = field(default_factory=dict)
    beside: dict[str, str] = field(default_factory=dict)
    below: list[str] = field(default_factory=list)
    groups: dict[str, str] = field(default_factory=dict)
    needs: dict[str, list[str]] = field(default_factory=dict)

    def text(self) -> str:
        """The file's text; what `parse_series` read comes back byte for byte."""
        lines = list(self.heading)
        for name in self.names:
            lines += self.above.get(name, [])
            lines.append(self.beside.get(name, name))
        lines += self.below
        return "".join(f"{line}\n" for line in lines)

    def reordered(self, names: list[str]) -> SeriesFile:
        """The same file with other names or another order; comments stay with their names."""
        return replace(self, names=names)

    def part(self, what: str) -> list[str]:
        """The patches of a group, or one patch, with all that they need, in order."""
        chosen = [name for name in self.names if what in (name, self.groups.get(name))]
        if not chosen:
            known = ", ".join([*dict.fromkeys(self.groups.values()), *self.names])
            raise ForkToolError(f"The series has neither a group nor a patch {what!r}: choose one of {known}.")
        wanted = set(chosen)
        for name in reversed(self.names):
            if name in wanted:
                wanted.update(self.needs.get(name, ()))
        core = [name for name in self.names if self.groups.get(name) == self.groups.get(self.names[0])]
        if wanted.issubset(core):
            return core[: max(map(core.index, wanted)) + 1]
        return [name for name in self.names if name in wanted or name in core]


def read_series(path: Path, shown: str) -> SeriesFile:
    """Read the file at a path."""
    try:
        return parse_series(path.read_text("utf-8"), shown)
    except FileNotFoundError:
        raise ForkToolError(f"{shown} is missing: bring it back with `git checkout -- {shown}`.") from None
    except UnicodeDecodeError:
        raise ForkToolError(
            f"{shown} is corrupted: it is not UTF-8 text; bring it back with `git checkout -- {shown}`."
        ) from None


def parse_series(text: str, shown: str) -> SeriesFile:
    """Read a series file; `shown` is its name for messages."""
    series = SeriesFile()
    waiting: list[str] = []
    group = ""
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split("#", 1)[0].strip()
        if heading := _GROUP.fullmatch(words):
            group = heading[1]
        if heading or not words:
            waiting.append(line)
            continue
        name, _, needs = words.partition(":")
        for word in (name, *needs.split()):
            if not NAME.fullmatch(word):
                raise ForkToolError(
                    f"{shown}, line {number}: {word!r} cannot be the name of a patch: use small letters, digits, '-', '_' and '.', one name a line."
                )
            if word != name and word not in series.names:
                raise ForkToolError(f"{shown}, line {number}: {name} needs {word}, which is not above it.")
        if name in series.names:
            raise ForkToolError(f"{shown}, line {number}: patch {name} is listed twice: take one of the two lines out.")
        if not series.names:
            # The comment that opens the file belongs to the file, not to the first patch.
            blank = max((index + 1 for index, kept in enumerate(waiting) if not kept.strip()), default=len(waiting))
            series.heading, waiting = waiting[:blank], waiting[blank:]
        series.names.append(name)
        series.above[name] = waiting
        series.groups[name] = group
        series.needs[name] = needs.split()
        series.beside[name] = line
        waiting = []
    if series.names:
        series.below = waiting
    else:
        series.heading = waiting
    return series
