"""Runs suites side by side, as many as the machine has cores for, and prints each one's output when it ends."""

import os
import resource
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from rich.text import Text

from fork_tool.common.console import out, say, show_command
from fork_tool.common.processes import put_down, start_logged
from fork_tool.machine.machine import Machine
from fork_tool.series.project import Project
from fork_tool.suites.one_suite import count, is_missing, prepare, run_suite, Start
from fork_tool.suites.reports import Count, Outcome
from fork_tool.suites.suite import ALONE, BUILDS, Suite

_LOOK_SECONDS = 0.05


@dataclass
class _Running:
    start: Start
    process: subprocess.Popen[bytes]
    log: Path
    cores: int
    began: float
    cpu_seconds: float = 0.0

    def has_ended(self) -> bool:
        # As Popen.poll(), which does not ask what the process and its children used.
        process, status, usage = os.wait4(self.process.pid, os.WNOHANG)
        if not process:
            return False
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.cpu_seconds = _cpu_seconds(usage)
        return True

    def seconds(self) -> float:
        return time.monotonic() - self.began


def run_together(
    project: Project, machine: Machine, suites: Iterable[Suite], cores: int, ended: Callable[[Outcome], None]
) -> None:
    """Run all suites on so many cores, even after a failure; `ended` is told of each one when it ends.

    A suite begins as soon as the cores that it can use are free. Those that can use several come last, since they leave
    none unused then; otherwise those further up in the table come first.
    """
    waiting = sorted(suites, key=lambda suite: suite.is_spread)
    if len(waiting) == 1:
        # Nothing can run beside it: the user sees its output at once.
        began, used = time.monotonic(), _cpu_seconds(resource.getrusage(resource.RUSAGE_CHILDREN))
        counted = run_suite(project, machine, waiting[0], cores=cores)
        used = _cpu_seconds(resource.getrusage(resource.RUSAGE_CHILDREN)) - used
        ended(Outcome(waiting[0].name, counted, time.monotonic() - began, used))
        return
    number, began = len(waiting), time.monotonic()
    running: list[_Running] = []
    with out.status("") as shown:
        try:
            while waiting or running:
                free = cores - sum(one.cores for one in running)
                building = any(one.start.suite.load == BUILDS for one in running)
                for suite, given in take_what_fits(waiting, free, cores, building):
                    if is_missing(project, suite):
                        ended(Outcome(suite.name, Count(failed=1), 0.0))
                    else:
                        running.append(_begin(project, machine, suite, given))
                shown.update(_doing(running, number - len(waiting) - len(running), number))
                time.sleep(_LOOK_SECONDS)
                for one in [one for one in running if one.has_ended()]:
                    running.remove(one)
                    ended(_end(project, one))
                    done, minutes = number - len(waiting) - len(running), (time.monotonic() - began) / 60
                    say(f"{done} of {number} suites done after {minutes:.0f} min", style="dim")
        finally:
            put_down([one.process for one in running])


def take_what_fits(waiting: list[Suite], free: int, cores: int, building: bool = False) -> list[tuple[Suite, int]]:
    """Take from the list what the free ones of a machine's cores are enough for, each suite with the cores it gets.

    `building`: one that builds is running, so that others of these are left.
    """
    # Each further process imports torch again, so that a suite has few of them while many suites wait.
    most = -(-2 * cores // max(1, len(waiting)))
    taken = []
    for suite in list(waiting):
        if suite.load == BUILDS and building:
            continue
        wanted = suite.cores(cores, most)
        given = min(free, wanted)
        # One that is spread goes without up to half of its cores: all of them are rarely free at once.
        enough = wanted if suite.load == ALONE else -(-wanted // 2)
        if given >= enough:
            free -= given
            building |= suite.load == BUILDS
            waiting.remove(suite)
            taken.append((suite, given))
    return taken


def _begin(project: Project, machine: Machine, suite: Suite, cores: int) -> _Running:
    start = prepare(project, machine, suite, cores)
    log = project.layout.reports / f"{suite.file_name}.log"
    say(f"{suite.name}: begun on {cores} core{'s' if cores > 1 else ''}", style="dim")
    process = start_logged(start.command, start.directory, start.environment, log)
    return _Running(start, process, log, cores, time.monotonic())


def _end(project: Project, one: _Running) -> Outcome:
    say(f"── {one.start.suite.name}", style="bold")
    show_command(one.start.command, one.start.where)
    with one.log.open(encoding="utf-8", errors="replace") as stream:
        for line in stream:
            out.file.write(line.removesuffix("\n") + "\n")
    counted = count(project, one.start, one.process.returncode)
    seconds = one.seconds()
    say(f"{one.start.suite.name}: {counted.whole()} ({seconds:.0f} s)", style="red" if counted.failed else "")
    return Outcome(one.start.suite.name, counted, seconds, one.cpu_seconds)


def _cpu_seconds(usage: resource.struct_rusage) -> float:
    return usage.ru_utime + usage.ru_stime


def _doing(running: list[_Running], done: int, number: int) -> Text:
    names = ", ".join(f"{one.start.suite.name} ({one.seconds():.0f} s)" for one in running)
    return Text(f"{done} of {number} suites done; running: {names}")
