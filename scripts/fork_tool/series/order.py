"""`patches/series`: the order of the entries, one name a line, `#` starts a comment."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fork_tool.common.errors import ForkToolError

NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")


@dataclass
class SeriesFile:
    """The names in order, with the lines (comments, blanks) that stand around them."""

    names: list[str] = field(default_factory=list)
    heading: list[str] = field(default_factory=list)
    above: dict[str, list[str]] = field(default_factory=dict)
    beside: dict[str, str] = field(default_factory=dict)
    below: list[str] = field(default_factory=list)

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
        return SeriesFile(names, self.heading, self.above, self.beside, self.below)


def parse_series(text: str, shown: str) -> SeriesFile:
    """Read a series file; `shown` is its name for messages."""
    series = SeriesFile()
    waiting: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        name = line.split("#", 1)[0].strip()
        if not name:
            waiting.append(line)
            continue
        if not NAME.fullmatch(name):
            raise ForkToolError(
                f"{shown}, line {number}: {name!r} cannot be the name of an entry: use small letters, digits, '-', '_' and '.', one name a line."
            )
        if name in series.names:
            raise ForkToolError(f"{shown}, line {number}: entry {name} is listed twice: take one of the two lines out.")
        if not series.names:
            # The comment that opens the file belongs to the file, not to the first entry.
            blank = max((index + 1 for index, kept in enumerate(waiting) if not kept.strip()), default=len(waiting))
            series.heading, waiting = waiting[:blank], waiting[blank:]
        series.names.append(name)
        series.above[name] = waiting
        series.beside[name] = line
        waiting = []
    if series.names:
        series.below = waiting
    else:
        series.heading = waiting
    return series
