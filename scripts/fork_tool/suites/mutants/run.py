"""`mutants`: small faults in the engine and the checks, one at a time, and which suite notices."""

import hashlib
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.table import Table

from fork_tool.common.console import count_progress, out, say
from fork_tool.common.errors import ForkToolError
from fork_tool.common.git import Git
from fork_tool.common.processes import exclusive
from fork_tool.machine.machine import Machine
from fork_tool.paths import Layout
from fork_tool.series.project import Project
from fork_tool.suites.mutants.build import COMPILED, DoesNotBuild
from fork_tool.suites.mutants.patch import DoesNotApply, Mutant, MutantSuite, read_mutants
from fork_tool.suites.mutants.place import files_of, MutantPlace
from fork_tool.suites.mutants.report import (
    CAUGHT,
    DOES_NOT_APPLY,
    DOES_NOT_BUILD,
    NOT_RUN,
    read_report,
    RED_WITHOUT,
    SURVIVED,
    TIMED_OUT,
    totals,
    Verdict,
    write_report,
)
from fork_tool.suites.mutants.suites import GREEN, MutantSuites, NOTICED
from fork_tool.suites.mutants.suites import TIMED_OUT as SUITE_TIMED_OUT
from fork_tool.suites.reports import machine_sentence
from fork_tool.suites.simulator import make_ready, simulator_machine

REPORT = "mutants.json"
# Nothing that a suite of the mutants runs.
_NOT_SOURCES = ("docs/", "test/mutants/")
_STYLES = {CAUGHT: "green", SURVIVED: "bold red"}


def directory(layout: Layout) -> Path:
    return layout.root / "test" / "mutants"


def choose(project: Project, names: Sequence[str]) -> list[Mutant]:
    """Those that were asked for, or all."""
    there = read_mutants(directory(project.layout))
    for name in names:
        if name not in [mutant.name for mutant in there]:
            raise ForkToolError(f"There is no mutant {name!r}: `mutants --list` shows them.")
    return [mutant for mutant in there if not names or mutant.name in names]


def show_list(mutants: Iterable[Mutant]) -> None:
    table = Table("mutant", "fault", "suites")
    for mutant in mutants:
        table.add_row(mutant.name, mutant.fault, "\n".join(str(suite) for suite in mutant.suites))
    out.print(table)


def run_mutants(
    project: Project,
    names: Sequence[str] = (),
    resume: bool = False,
    report: Path | None = None,
) -> list[Verdict]:
    """Run them, and write the report."""
    machine = simulator_machine()
    make_ready(project, machine, tests=True)
    layout = project.layout
    mutants = choose(project, names)
    # A second run would have its faults in the same place, and `make simulator` would change what is linked.
    with exclusive(layout):
        run = _Run(project, machine, report or layout.reports / REPORT)
        return run.all(mutants, resume)


def show(verdicts: Iterable[Verdict]) -> None:
    """The counts, and what is not good."""
    verdicts = list(verdicts)
    for verdict in verdicts:
        if not verdict.good:
            say(f"{verdict.name}: {verdict.sentence()}", style="red")
    say(", ".join(f"{number} {outcome.replace('_', ' ')}" for outcome, number in totals(verdicts).items()))


class _Run:
    def __init__(self, project: Project, machine: Machine, report: Path):
        self._project = project
        self._layout = project.layout
        self._report = report
        self._machine = machine_sentence(machine)
        self._place = MutantPlace(project.layout)
        self._suites = MutantSuites(project, machine, self._place)
        self._red: dict[MutantSuite, str] = {}
        self._others: list[Verdict] = []
        self._count = 0

    def all(self, mutants: Sequence[Mutant], resume: bool) -> list[Verdict]:
        """One after the other, all of them even after a survivor."""
        for mutant in mutants:
            for suite in mutant.suites:
                self._suites.known(suite)
        earlier = read_report(self._report)
        sources = _sources(self._layout)
        there = choose(self._project, [])
        current = {
            mutant.name: earlier[mutant.name]
            for mutant in there
            if mutant.name in earlier and earlier[mutant.name].sources == _key(mutant, sources)
        }
        chosen = [mutant.name for mutant in mutants]
        done = {name: verdict for name, verdict in current.items() if resume and name in chosen}
        # What is known of the others stays in the report.
        self._others = [verdict for name, verdict in current.items() if name not in chosen]
        self._count = len(there)
        verdicts = [done.get(mutant.name) or _new(mutant, sources) for mutant in mutants]
        left = [(mutant, verdict) for mutant, verdict in zip(mutants, verdicts) if mutant.name not in done]
        if done:
            say(f"{len(done)} of {len(mutants)} were run on these sources already.")
        if left:
            self._place.prepare()
            self._baseline([mutant for mutant, _ in left])
            self._examine_all(left, verdicts)
        self._write(verdicts)
        return verdicts

    def _write(self, verdicts: Sequence[Verdict]) -> None:
        known = [verdict for verdict in [*self._others, *verdicts] if verdict.outcome]
        known.sort(key=lambda verdict: verdict.name)
        write_report(self._report, known, self._machine, len(known) == self._count)

    def _baseline(self, mutants: Sequence[Mutant]) -> None:
        """All their suites without a fault: what is red then cannot notice anything.

        On a build in which what the first mutant changes was compiled as it is, so that the way of building is tried too.
        """
        compiled = next((one for one in mutants if any(path.endswith(COMPILED) for path in one.paths)), None)
        try:
            self._place.put(compiled, unchanged=True)
        except DoesNotApply:
            self._place.put(None)
        except DoesNotBuild as problem:
            raise ForkToolError(f"The build without a fault, made as a mutant's is, fails: {problem}.") from None
        log = self._log("baseline")
        by_name: dict[str, list[MutantSuite]] = {}
        for suite in dict.fromkeys(suite for mutant in mutants for suite in mutant.suites):
            by_name.setdefault(suite.name, []).append(suite)
        for name, suites in by_name.items():
            plain = [suite for suite in suites if self._suites.can_be_joined(suite)]
            groups = [plain, *([suite] for suite in suites if suite not in plain)]
            for group in groups:
                if group:
                    self._try(name, group, log)

    def _try(self, name: str, group: list[MutantSuite], log: Path) -> None:
        began = time.monotonic()
        result = self._suites.run(group, 600.0, log, stop=False)
        words = f"{result.state}{f', {result.detail}' if result.detail else ''}"
        _tell(f"without a fault, {name}: {words} ({time.monotonic() - began:.0f} s)")
        if result.state == GREEN:
            return
        if len(group) == 1:
            self._red[group[0]] = result.detail or result.state
            return
        for suite in group:
            self._try(name, [suite], log)

    def _examine_all(self, left: Sequence[tuple[Mutant, Verdict]], verdicts: Sequence[Verdict]) -> None:
        with count_progress() as progress:
            task = progress.add_task("mutants", total=len(left))
            for number, (mutant, verdict) in enumerate(left, start=1):
                progress.update(task, description=mutant.name)
                began = time.monotonic()
                self._examine(mutant, verdict)
                verdict.seconds = round(time.monotonic() - began, 1)
                progress.advance(task)
                sentence = f"[{number}/{len(left)}] {mutant.name}: {verdict.sentence()}, {verdict.seconds:.0f} s"
                _tell(sentence, style=_STYLES.get(verdict.outcome, "yellow"))
                self._write(verdicts)

    def _examine(self, mutant: Mutant, verdict: Verdict) -> None:
        began = time.monotonic()
        try:
            self._place.put(mutant)
        except DoesNotApply as problem:
            verdict.outcome, verdict.reason = DOES_NOT_APPLY, str(problem)
        except DoesNotBuild as problem:
            verdict.outcome, verdict.reason = DOES_NOT_BUILD, str(problem)
        verdict.build_seconds = round(time.monotonic() - began, 1)
        for suite in mutant.suites:
            if not verdict.outcome:
                self._ask(suite, mutant, verdict)
        verdict.outcome = verdict.outcome or SURVIVED

    def _ask(self, suite: MutantSuite, mutant: Mutant, verdict: Verdict) -> None:
        if suite in self._red:
            verdict.outcome, verdict.reason = RED_WITHOUT, f"{suite}: {self._red[suite]}"
            return
        result = self._suites.run([suite], mutant.limit, self._log(mutant.name))
        if result.state == NOTICED or (result.state == SUITE_TIMED_OUT and mutant.hangs):
            test = result.detail if result.state == NOTICED else f"{' '.join(suite.words)} by timeout, {result.detail}"
            verdict.outcome, verdict.suite, verdict.test = CAUGHT, suite.name, test
        elif result.state == SUITE_TIMED_OUT:
            verdict.outcome, verdict.reason = TIMED_OUT, f"{suite}: {result.detail}"
        elif result.state == GREEN:
            verdict.unnoticed.append(str(suite))
        else:
            verdict.outcome, verdict.reason = NOT_RUN, f"{suite}: {result.detail}"

    def _log(self, name: str) -> Path:
        return self._place.scratch / "logs" / f"{name}.txt"


def _tell(sentence: str, style: str = "") -> None:
    """Print a line at once, also to a file: the run takes long."""
    say(sentence, style)
    out.file.flush()


def _key(mutant: Mutant, sources: str) -> str:
    return hashlib.sha256(sources.encode() + mutant.text).hexdigest()


def _new(mutant: Mutant, sources: str) -> Verdict:
    return Verdict(mutant.name, mutant.fault, mutant.paths, _key(mutant, sources))


def _sources(layout: Layout) -> str:
    """A digest of all that a mutant's outcome depends on, but for the mutant: repository and checkout as they are."""
    digest = hashlib.sha256()
    for path in files_of(layout):
        if not path.startswith(_NOT_SOURCES) and not path.endswith(".md"):
            digest.update(path.encode() + b"\0" + hashlib.sha256((layout.root / path).read_bytes()).digest())
    checkout = Git(layout.checkout)
    digest.update((checkout.resolve("HEAD") or "").encode())
    digest.update(checkout.run("diff", "HEAD").stdout)
    return digest.hexdigest()
