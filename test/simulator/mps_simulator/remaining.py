"""The list of PyTorch's tests that do not go as on macOS, with the cause of each.

One test a line: its outcome, its id, and why, with two or more blanks between.
``failed@15.2`` is an outcome on that version of macOS only.
The list is exact: a run must give each test on it the outcome that it states,
and every other test a good one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mps_simulator.run_test_mps import Result

GOOD = ("passed", "skipped", "xfailed")
# Tests that are not started: a machine has too little memory for them, or they are about something else. The id may be a
# pattern of the shell.
TOO_LARGE, NOT_RUN = "too-large", "not-run"
NOT_STARTED = "not_started"
# A test that depends on what other tests left may pass or fail.
UNSTABLE = "unstable"
LISTED = ("failed", "errored", "xpassed", "skipped", TOO_LARGE, NOT_RUN, UNSTABLE)


class ListError(Exception):
    """A list that cannot be read; the message says where."""


@dataclass(frozen=True)
class Remaining:
    """A line of the list."""

    outcome: str
    id: str
    cause: str


def read_list(path: Path, version: str | None = None) -> dict[str, Remaining]:
    """Reads a list: the entries by test, for one version of macOS."""
    entries: dict[str, Remaining] = {}
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = re.split(r"\s{2,}", line.strip(), maxsplit=2)
        if len(fields) != 3:
            raise ListError(f"{path}:{number}: a line has an outcome, a test and a cause, two blanks apart")
        outcome, _, only = fields[0].partition("@")
        if only and only != version:
            continue
        entry = Remaining(outcome, *fields[1:])
        if entry.outcome not in LISTED:
            raise ListError(f"{path}:{number}: the outcome {entry.outcome!r} is none of {', '.join(LISTED)}")
        if entry.id in entries:
            raise ListError(f"{path}:{number}: {entry.id} is on the list twice")
        entries[entry.id] = entry
    return entries


def split(test: str) -> tuple[str, str]:
    """Splits the id of a test into upstream's file and the id in it.

    Tests of test_mps.py have no file in front: TestMPS::test_x; the others have:
    nn/test_pooling.py::TestPoolingNNDeviceTypeMPS::test_x.
    """
    head, separator, rest = test.partition(".py::")
    return (f"{head}.py", rest) if separator else ("test_mps.py", test)


def of_file(entries: dict[str, Remaining], file: str) -> dict[str, Remaining]:
    """Returns the entries of one of upstream's files, without its name in front."""
    own: dict[str, Remaining] = {}
    for entry in entries.values():
        name, test = split(entry.id)
        if name == file:
            own[test] = Remaining(entry.outcome, test, entry.cause)
    return own


def differences(
    results: Iterable[Result], entries: dict[str, Remaining], gone: Iterable[str], good: Collection[str] = GOOD
) -> list[str]:
    """Says in what the list and a run disagree; nothing when the list is exact.

    Args:
        results: the tests that were run, which need not be all.
        entries: the list.
        gone: tests of the list that there are not.
        good: the outcomes that need not be on the list.
    """
    found = [f"{test}: is on the list, but there is no such test" for test in gone]
    for result in results:
        entry = entries.get(result.id)
        if entry is None:
            if result.outcome not in good:
                found.append(f"{result.id}: {result.outcome}, but not on the list: {result.error}")
            continue
        if entry.outcome == UNSTABLE and result.outcome in ("passed", "failed"):
            continue
        stated = NOT_STARTED if entry.outcome in (TOO_LARGE, NOT_RUN) else entry.outcome
        if result.outcome != stated:
            reason = f": {result.error}" if result.error else ""
            found.append(f"{result.id}: {result.outcome}, but on the list as {entry.outcome}{reason}")
    return found
