"""Writing other values into base.toml; comments and layout stay."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from fork_tool.common.errors import ForkToolError

_HEADER = re.compile(r"\s*\[\[?\s*([\w.-]+)\s*\]\]?")


def edit_pin(text: str, path: Path, values: dict[tuple[str, str], str], without: tuple[str, ...] = ()) -> str:
    """The text with these values, by (table, key), and without these tables; nothing is written."""
    wanted = tomllib.loads(text)
    for table in without:
        wanted.pop(table, None)
        text = _without(text, table)
    for (table, key), value in values.items():
        wanted[table][key] = value
        text = _with_value(text, table, key, value)
    if tomllib.loads(text) != wanted:
        raise ForkToolError(
            f"{path} is laid out in a way that can't be rewritten: put {', '.join('.'.join(name) for name in values)} "
            'on lines of their own, as `key = "value"` below the `[table]`, and run this again.'
        )
    return text


def _section(lines: list[str], table: str) -> tuple[int, int]:
    """The lines of a table, without its header; (0, 0) when there is none."""
    start = 0
    for number, line in enumerate(lines):
        header = _HEADER.match(line)
        if header and start:
            return start, number
        if header and header[1] == table:
            start = number + 1
    return (start, len(lines)) if start else (0, 0)


def _with_value(text: str, table: str, key: str, value: str) -> str:
    lines = text.splitlines(keepends=True)
    start, end = _section(lines, table)
    quoted = '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    for number in range(start, end):
        line = re.match(rf"""(\s*{re.escape(key)}\s*=\s*)("[^"]*"|'[^']*')(.*)""", lines[number], re.DOTALL)
        if line:
            lines[number] = f"{line[1]}{quoted}{line[3]}"
    return "".join(lines)


def _without(text: str, table: str) -> str:
    lines = text.splitlines(keepends=True)
    start, end = _section(lines, table)
    if not start:
        return text
    first, last = start - 1, end
    # The comment above a table belongs to it.
    while first and lines[first - 1].startswith("#"):
        first -= 1
    while last > start and last < len(lines) and lines[last - 1].startswith("#"):
        last -= 1
    return "".join(lines[:first] + lines[last:])
