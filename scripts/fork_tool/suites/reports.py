"""Counting what a suite of tests reported."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from xml.etree import ElementTree


@dataclass
class Count:
    """What became of a number of tests, each of which is in one column."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    # Fail because their file says so (xfail).
    expected_failures: int = 0
    # Failed, errored or passed unexpectedly as this repository's list of what remains says.
    known_failures: int = 0
    # Beyond this machine: on that list, and not started.
    not_run: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(*(getattr(self, column) + getattr(other, column) for column in COLUMNS))

    def __str__(self) -> str:
        """The line that ends a run: programs read it."""
        return f"{self.passed} passed, {self.failed} failed" + (f", {self.skipped} skipped" if self.skipped else "")

    def whole(self) -> str:
        """All columns with something in them."""
        rest = (f"{getattr(self, column):,} {title_of(column)}" for column in COLUMNS[2:] if getattr(self, column))
        return ", ".join([f"{self.passed:,} passed, {self.failed:,} failed", *rest])


COLUMNS = tuple(field.name for field in fields(Count))


def title_of(column: str) -> str:
    """How a column is headed."""
    return column.replace("_", " ")


def count_junit(path: Path, status: int) -> Count:
    """Count a JUnit file; a run that ended badly without saying why is a failure."""
    count = Count()
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError):
        return Count(failed=1)
    for case in root.iter("testcase"):
        skip = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            count.failed += 1
        elif skip is not None and skip.get("type") == "pytest.xfail":
            count.expected_failures += 1
        elif skip is not None:
            count.skipped += 1
        else:
            count.passed += 1
    return _distrust(count, status)


def count_totals(path: Path, status: int) -> Count:
    """Count a report of upstream's tests."""
    try:
        report = json.loads(path.read_text("utf-8"))
        totals, listed = report["totals"], report["listed"]
        count = Count(
            passed=totals["passed"],
            failed=totals["failed"] + totals["errored"] + totals["xpassed"] - listed,
            skipped=totals["skipped"],
            expected_failures=totals["xfailed"],
            known_failures=listed,
            not_run=totals["not_started"],
        )
        return _distrust(count, status)
    except (OSError, ValueError, KeyError):
        return Count(failed=1)


def count_status(status: int) -> Count:
    """Count a program that is one test."""
    return Count(failed=1) if status else Count(passed=1)


def _distrust(count: Count, status: int) -> Count:
    """A bad exit status, or a run in which nothing ran, is never a success."""
    ran = count.passed + count.expected_failures + count.known_failures
    if (status or not ran) and not count.failed:
        count.failed = 1
    return count
