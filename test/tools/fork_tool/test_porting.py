"""docs/porting.md says of every entry of the series what newer bases change for it."""

from __future__ import annotations

import re

import pytest

from fork_tool.paths import own_layout
from fork_tool.series.order import parse_series

ROOT = own_layout().root
PAGE = ROOT / "docs" / "porting.md"
HEADING = "| patch | 2.13 | main (2.15.0) | what to do |"
VERDICTS = re.compile(r"(ports|redesign|moot)\b")


def rows(text: str) -> list[list[str]]:
    """The cells of the page's table of entries, without heading and rule."""
    table = text.partition(HEADING + "\n")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[1:]]


def faults(text: str, entries: list[str]) -> list[str]:
    """What is wrong with the table, for the entries of a series in their order."""
    found: list[str] = []
    named: list[str] = []
    for row in rows(text):
        name = re.match(r"\[?`([^`]+)`", row[0])
        named.append(name[1] if name else row[0])
        if len(row) != 4 or not all(row):
            found.append(f"{named[-1]}: wants four cells with something in each")
        elif not VERDICTS.match(row[3]):
            found.append(f"{named[-1]}: begins neither with ports, redesign nor moot: {row[3]}")
    found += [f"{name}: has no row" for name in entries if name not in named]
    found += [f"{name}: is no entry" for name in named if name not in entries]
    if not found and named != entries:
        found.append("the rows are not in the order of the series")
    return found


@pytest.fixture(scope="module")
def entries() -> list[str]:
    layout = own_layout()
    return parse_series(layout.series.read_text("utf-8"), "patches/series").names


def test_every_entry_has_its_row(entries: list[str]) -> None:
    assert faults(PAGE.read_text("utf-8"), entries) == []


def test_faults_are_found(entries: list[str]) -> None:
    text = PAGE.read_text("utf-8")
    lines = text.splitlines(keepends=True)
    for name in entries:
        at = next(number for number, line in enumerate(lines) if re.match(rf"\| \[?`{re.escape(name)}`", line))
        without = "".join(lines[:at] + lines[at + 1 :])
        assert faults(without, entries) == [f"{name}: has no row"]
    assert faults(text, entries[:-1]) == [f"{entries[-1]}: is no entry"]
    assert faults(text, [*entries[1:], entries[0]]) == ["the rows are not in the order of the series"]
    unsaid = text.replace("| moot; keep its cases |", "| keep its cases |")
    assert faults(unsaid, entries) == [
        "multinomial-check: begins neither with ports, redesign nor moot: keep its cases"
    ]
    empty = text.replace("| moot; keep its cases |", "| |")
    assert faults(empty, entries) == ["multinomial-check: wants four cells with something in each"]
