"""`test-as-release`: the capture tests on a PyTorch 2.6.0 that behaves like a newer release, and with planted faults.

Built as mutants are: the first change of `test/releases/as_2.13.patch` changes PyTorch's operators and allocator, each
further one takes away what makes the engine ready for that.
"""

import json
import time
from dataclasses import asdict, dataclass, replace

from fork_tool.common.console import say
from fork_tool.common.files import write_atomically
from fork_tool.common.processes import exclusive
from fork_tool.series.project import Project
from fork_tool.suites.mutants.build import DoesNotBuild
from fork_tool.suites.mutants.patch import DoesNotApply, Mutant, read_file
from fork_tool.suites.mutants.place import MutantPlace
from fork_tool.suites.mutants.suites import GREEN, MutantSuites, NOTICED
from fork_tool.suites.simulator import make_ready, simulator_machine

REPORT = "as_release.json"


@dataclass
class Outcome:
    build: str
    suite: str
    wanted: str
    state: str
    detail: str
    seconds: float

    @property
    def good(self) -> bool:
        return self.state == self.wanted


def run_as_release(project: Project, faults: bool = True) -> list[Outcome]:
    """Run the suites on the changed PyTorch, and with `faults` those of each fault; all must end as expected."""
    machine = simulator_machine()
    make_ready(project, machine, tests=True)
    layout = project.layout
    variant, *planted = read_file(layout.root / "test" / "releases" / "as_2.13.patch")
    with exclusive(layout):
        place = MutantPlace(layout)
        suites = MutantSuites(project, machine, place)
        place.prepare()
        outcomes = _run(variant, GREEN, place, suites)
        if outcomes[-1].suite and faults:
            for fault in planted:
                outcomes += _run(_on(variant, fault), NOTICED, place, suites)
    say(f"{sum(outcome.good for outcome in outcomes)} of {len(outcomes)} are as wanted.")
    text = json.dumps({"outcomes": [asdict(outcome) for outcome in outcomes]}, indent=2)
    write_atomically(layout.reports / REPORT, text.encode())
    return outcomes


def _on(variant: Mutant, fault: Mutant) -> Mutant:
    """The fault in the variant: what both change is changed by the variant first."""
    hunks = {file.path: file.hunks for file in fault.files}
    files = [replace(file, hunks=[*file.hunks, *hunks.pop(file.path, ())]) for file in variant.files]
    files += [file for file in fault.files if file.path in hunks]
    return replace(fault, files=tuple(files))


def _run(change: Mutant, wanted: str, place: MutantPlace, suites: MutantSuites) -> list[Outcome]:
    began = time.monotonic()
    say(f"{change.name}: {change.fault}")
    try:
        place.put(change)
    except (DoesNotApply, DoesNotBuild) as problem:
        say(f"  {problem}", "red")
        return [Outcome(change.name, "", wanted, "not built", str(problem), time.monotonic() - began)]
    outcomes = []
    for suite in change.suites:
        suites.known(suite)
        began = time.monotonic()
        result = suites.run([suite], change.limit, place.scratch / "logs" / f"{change.name}.txt", stop=wanted != GREEN)
        seconds = round(time.monotonic() - began, 1)
        outcome = Outcome(change.name, str(suite), wanted, result.state, result.detail, seconds)
        say(f"  {suite.name}: {outcome.state} {outcome.detail} ({seconds:.0f} s)", "" if outcome.good else "red")
        outcomes.append(outcome)
    return outcomes
