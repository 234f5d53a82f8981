"""Running some tests of a suite on a mutant, and saying whether they noticed."""

import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import remove
from fork_tool.machine.machine import Machine
from fork_tool.paths import Layout
from fork_tool.series.project import Project
from fork_tool.suites.mutants.patch import MutantSuite
from fork_tool.suites.mutants.place import MutantPlace
from fork_tool.suites.reports import cases_of
from fork_tool.suites.simulator import device_command, program_environment
from fork_tool.suites.suite import JUNIT, load_suites, PYTEST, Suite, UPSTREAM_STYLE

GREEN, NOTICED, TIMED_OUT, NOT_RUN = "green", "noticed", "timed out", "not run"
# Of pytest, and of a program that is one test.
_FAILED = 1
# Whether what a mutant left still loads: a build that does not is no fault that a test has noticed.
_SMOKE = "import torch; assert (torch.ones(1, device='mps') + 1).item() == 2"


@dataclass(frozen=True)
class Result:
    """What became of a run: GREEN, NOTICED, TIMED_OUT or NOT_RUN, and by which test or for which reason."""

    state: str
    detail: str = ""


class MutantSuites:
    """Runs suites in the copies that a MutantPlace holds."""

    def __init__(self, project: Project, machine: Machine, place: MutantPlace):
        self._layout = project.layout
        self._machine = machine
        self._place = place
        self._copy = Project(Layout(place.tree))
        self._python = project.layout.python
        self._table = load_suites(project.layout)

    def can_be_joined(self, suite: MutantSuite) -> bool:
        """Whether it names tests of pytest and nothing else: -k and its like would choose from those of others too."""
        return self.known(suite).counted == JUNIT and not any(word.startswith("-") for word in suite.words)

    def run(self, suites: Sequence[MutantSuite], limit: float, log: Path, stop: bool = True) -> Result:
        """Run tests of one suite; `stop`: at the first failure."""
        known = self.known(suites[0])
        report = self._place.scratch / "junit.xml"
        remove(report)
        words = list(dict.fromkeys(word for suite in suites for word in suite.words))
        if known.counted == JUNIT:
            style = PYTEST if known.directory == "." else UPSTREAM_STYLE
            words = [*style, "-p", "no:cacheprovider", "-vv", *(["-x"] if stop else []), *words]
            words = [word.replace("{report}", str(report)) for word in words]
        command = [*self._start(known), *words]
        status = self._run(command, self._place.tree / known.directory, limit, log)
        if status is None:
            return Result(TIMED_OUT, f"no end within {limit:.0f} s")
        return self._judge(known, status, report, log)

    def known(self, suite: MutantSuite) -> Suite:
        """The suite of the table; refuses one that there is not."""
        for known in self._table:
            if known.name == suite.name:
                return known
        raise ForkToolError(
            f"There is no suite {suite.name!r}: there are {', '.join(known.name for known in self._table)}."
        )

    def _start(self, known: Suite) -> list[str]:
        if not known.on_device:
            return [str(self._python)]
        start = device_command(self._copy, self._machine)
        return [str(self._python), *start[1:], *known.simulator]

    def _environment(self) -> dict[str, str]:
        directory = str(self._place.build.directory)
        libraries = [directory, os.environ.get("LD_LIBRARY_PATH", "")]
        return program_environment(self._copy) | {
            "MPS_SIMULATOR_BUILD": directory,
            # Programs in C++ have the usual build's path compiled in.
            "LD_LIBRARY_PATH": os.pathsep.join(part for part in libraries if part),
            "PYTHONDONTWRITEBYTECODE": "1",
            # The property tests need not look for the smallest example.
            "HYPOTHESIS_PROFILE": "unshrunk",
        }

    def _run(self, command: list[str], directory: Path, limit: float, log: Path) -> int | None:
        """The exit status, or None when the time is up; whatever it started is ended with it."""
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as said:
            process = subprocess.Popen(
                command,
                cwd=directory,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                return process.wait(limit)
            except subprocess.TimeoutExpired:
                return None
            finally:
                _end_group(process)

    def _judge(self, known: Suite, status: int, report: Path, log: Path) -> Result:
        if status == 0:
            return Result(GREEN)
        if status == _FAILED:
            if known.counted != JUNIT:
                return Result(NOTICED, f"exit status {status}")
            test = _first_failure(report)
            return Result(NOTICED, test) if test else Result(NOT_RUN, f"pytest failed without a failed test, see {log}")
        if status > 0:
            return Result(NOT_RUN, f"exit status {status}, see {log}")
        # It died: of the fault, if the device is there at all.
        if known.on_device:
            smoke = [str(self._python), "-m", "mps_simulator", "-c", _SMOKE]
            if self._run(smoke, self._place.tree, 60.0, log):
                return Result(NOT_RUN, f"nothing runs on the device any more, see {log}")
        return Result(NOTICED, f"{_last_started(log)} (died of {signal.Signals(-status).name})")


def _end_group(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def _first_failure(report: Path) -> str:
    """The first test that failed; empty when there is none, as when a file of tests could not be read."""
    for case in cases_of(report):
        error = case.find("error")
        if error is not None and error.get("message") == "collection failure":
            return ""
        if case.find("failure") is not None or error is not None:
            return f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
    return ""


def _last_started(log: Path) -> str:
    """The test that pytest had begun last."""
    lines = [line for line in log.read_text("utf-8", "replace").splitlines() if "::" in line]
    return lines[-1].split(" ")[0] if lines else "unknown test"
