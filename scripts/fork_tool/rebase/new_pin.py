"""What base.toml says once the series stands on another base; comments and layout stay."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from fork_tool.common.errors import ForkToolError
from fork_tool.rebase.targets import Target
from fork_tool.series.project import Project

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


_RELEASE = re.compile(r"v(\d+(?:\.\d+)+)")


def rewritten_pin(project: Project, target: Target) -> tuple[str, list[str]]:
    """The new text, and what the user has to look at; nothing is written."""
    pin, path = project.pin, project.layout.pin
    text = path.read_text("utf-8")
    if target.commit == pin.commit:
        return text, []
    values = {
        ("upstream", "tag"): target.name,
        ("upstream", "commit"): target.commit,
        ("upstream", "date"): target.date,
    }
    notes = []
    release = _RELEASE.fullmatch(target.name)
    if release:
        values["wheel", "version"] = release[1]
    else:
        notes.append(
            f"{target.name} is no release: base.toml still names the wheel {pin.wheel}, on which the simulator runs."
        )
    without: tuple[str, ...] = ()
    if pin.tarball:
        without = ("debian",)
        notes.append(
            f"base.toml no longer has the table [debian]: {pin.tarball.name} is not the source of {target.name}."
        )
    notes.append(
        "what base.toml says of building and making wheels ([wheel.build], [mac_library]) is still that of "
        f"{pin.tag}: scripts/mac_wheel/README.md gives the reasons for its values."
    )
    return edit_pin(text, path, values, without), notes
