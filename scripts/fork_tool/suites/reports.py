"""Counting what suites reported, and the report of a run: what passed, of which sources, on which machine."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import date
from pathlib import Path
from xml.etree import ElementTree

from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import write_atomically
from fork_tool.common.git import Git
from fork_tool.common.processes import output_of
from fork_tool.machine.machine import Machine
from fork_tool.series.project import Project

NAME = "summary"
# What the simulator is when nothing else is asked for.
SIMULATED_MACOS = "15.2"
_CPU_INFO = Path("/proc/cpuinfo")
_GIB = 1 << 30
# Of a failed test, at the end of a run.
_MOST_LINES = 12


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

    def numbers(self) -> list[str]:
        """All columns, for a table."""
        return [f"{getattr(self, column):,}" for column in COLUMNS]

    def whole(self) -> str:
        """All columns with something in them."""
        rest = (f"{getattr(self, column):,} {title_of(column)}" for column in COLUMNS[2:] if getattr(self, column))
        return ", ".join([f"{self.passed:,} passed, {self.failed:,} failed", *rest])


COLUMNS = tuple(field.name for field in fields(Count))


def title_of(column: str) -> str:
    """How a column is headed."""
    return column.replace("_", " ")


def cases_of(path: Path) -> list[ElementTree.Element]:
    """The tests of a JUnit file; none if it is missing or was not written to its end."""
    try:
        return list(ElementTree.parse(path).iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return []


def count_junit(path: Path, status: int) -> Count:
    """Count a JUnit file; a run that ended badly without saying why is a failure."""
    count = Count()
    for case in cases_of(path):
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


def failures_of(path: Path) -> list[str]:
    """Tell what failed in a JUnit file, with the last lines of each traceback."""
    told = []
    for case in cases_of(path):
        for problem in (*case.iter("failure"), *case.iter("error")):
            lines = (problem.text or problem.get("message") or "").splitlines()[-_MOST_LINES:]
            told.append("\n  ".join([f"{case.get('classname')}::{case.get('name')}", *lines]))
    return told


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


@dataclass(frozen=True)
class Outcome:
    name: str
    count: Count
    seconds: float
    # of its processes, which have ended; None where nothing counted it
    cpu_seconds: float | None = None


def _memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return int(answer("sysctl", "-n", "hw.memsize") or 0)


def answer(*command: str) -> str:
    """What a program prints; empty if it is not there or fails."""
    return output_of(command) or ""


def machine_sentence(
    machine: Machine, macos: tuple[str, ...] = (), ask: Callable[..., str] = answer, cpu_info: Path = _CPU_INFO
) -> str:
    """What runs the tests; `macos` are the versions that a simulator stands for."""
    size = f"{os.cpu_count() or 1} cores, {_memory() / _GIB:.0f} GiB"
    if machine.is_mac:
        chip = ask("sysctl", "-n", "machdep.cpu.brand_string") or machine.processor
        version = ask("sw_vers", "-productVersion") or platform.mac_ver()[0] or "of an unknown version"
        model, build = ask("sysctl", "-n", "hw.model"), ask("sw_vers", "-buildVersion")
        return f"device: {model}, {chip}, {size}, macOS {version} ({build})"
    lines = cpu_info.read_text("utf-8").splitlines() if cpu_info.exists() else []
    chip = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), machine.processor)
    simulated = " and ".join(macos or (os.environ.get("MPS_SIMULATOR_MACOS") or SIMULATED_MACOS,))
    system = machine.distribution or machine.system
    return f"simulator of macOS {simulated} on {chip}, {size}, {system}: no GPU was used"


class Summary:
    """The report of one run; what is done is written down after each suite, so that a run that ends early leaves it."""

    def __init__(self, project: Project, command: str, machine: str, torch: str | None):
        self._project = project
        self._command = command
        self._machine = machine
        self._torch = torch
        self._commit = commit_of(project.layout.root)
        self._outcomes: list[Outcome] = []
        self._began = time.monotonic()
        self.write(False)

    def add(self, outcome: Outcome) -> None:
        self._outcomes.append(outcome)
        self.write(False)

    def outcomes(self, names: Sequence[str]) -> list[Outcome]:
        """What ended, in the order of these names; suites that run side by side end in any order."""
        return sorted(self._outcomes, key=lambda one: names.index(one.name))

    def write(self, complete: bool) -> None:
        """Write both files again."""
        described = self._describe(complete)
        reports = self._project.layout.reports
        write_atomically(reports / f"{NAME}.json", (json.dumps(described, indent=2) + "\n").encode())
        write_atomically(reports / f"{NAME}.md", self._page(complete).encode())

    def _describe(self, complete: bool) -> dict[str, object]:
        pin = self._project.pin
        return {
            "command": self._command,
            "date": date.today().isoformat(),
            "complete": complete,
            "commit": self._commit,
            "base": {"tag": pin.tag, "commit": pin.commit},
            "torch": self._torch,
            "machine": self._machine,
            "total": asdict(self._total()),
            # of the clock: suites run side by side
            "seconds": round(time.monotonic() - self._began, 1),
            "suites": [
                {
                    "name": one.name,
                    **asdict(one.count),
                    "seconds": round(one.seconds, 1),
                    "cpu_seconds": None if one.cpu_seconds is None else round(one.cpu_seconds, 1),
                }
                for one in self._outcomes
            ],
        }

    def _page(self, complete: bool) -> str:
        pin = self._project.pin
        rows = [
            "| " + " | ".join([one.name, *one.count.numbers(), f"{one.seconds:.0f} s"]) + " |"
            for one in [*self._outcomes, Outcome("all", self._total(), time.monotonic() - self._began)]
        ]
        lines = [
            f"# {self._command}: {self._total().whole()}{'' if complete else ' (the run did not come to its end)'}",
            "",
            f"On {self._machine}.",
            "",
            f"Sources: {self._commit}, on PyTorch {pin.tag} ({pin.commit[:12]}); torch {self._torch or 'none'}.",
            "",
            "| " + " | ".join(["suite", *map(title_of, COLUMNS), "time"]) + " |",
            "|---" * (len(COLUMNS) + 2) + "|",
            *rows,
        ]
        return "\n".join(lines) + "\n"

    def _total(self) -> Count:
        return sum((one.count for one in self._outcomes), Count())


def commit_of(root: Path) -> str:
    """The commit of this repository, and whether there is more in it."""
    git = Git(root)
    try:
        commit = git.text("rev-parse", "HEAD")
        return f"{commit} with changes" if git.text("status", "--porcelain", "--untracked-files=no") else commit
    except ForkToolError:
        return "unknown"
