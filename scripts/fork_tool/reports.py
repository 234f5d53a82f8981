"""Counting what a ring of tests reported."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree


@dataclass
class Count:
    """How many tests passed, failed and were left out; an expected failure is a pass."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed"


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
        elif skip is not None and skip.get("type") != "pytest.xfail":
            count.skipped += 1
        else:
            count.passed += 1
    return _distrust(count, status)


def count_totals(path: Path, status: int) -> Count:
    """Count a report of upstream's tests."""
    try:
        report = json.loads(path.read_text("utf-8"))
        totals, listed = report["totals"], report["listed"]
        # What fails as the list of remaining failures says is an expected failure too.
        passed = totals["passed"] + totals["xfailed"] + listed
        failed = totals["failed"] + totals["errored"] + totals["xpassed"] - listed
        return _distrust(Count(passed, failed, totals["skipped"]), status)
    except (OSError, ValueError, KeyError):
        return Count(failed=1)


def count_status(status: int) -> Count:
    """Count a program that is one test."""
    return Count(failed=1) if status else Count(passed=1)


def _distrust(count: Count, status: int) -> Count:
    """A bad exit status, or a run in which nothing passed, is never a success."""
    if (status or not count.passed) and not count.failed:
        count.failed = 1
    return count
