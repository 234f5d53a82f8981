"""`test-patches`: the simulator built with each patch and the patches that it needs, and each patch's own tests there."""

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import PurePosixPath

from rich.table import Table

from fork_tool.common.console import out, say
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import write_atomically
from fork_tool.common.git import Git
from fork_tool.common.processes import exclusive
from fork_tool.machine.machine import Machine
from fork_tool.machine.simulator_build import build_simulator
from fork_tool.series.part import part_of_stack
from fork_tool.series.patches import Patch
from fork_tool.series.project import Project
from fork_tool.series.stack import Layer
from fork_tool.suites.one_suite import run_suite
from fork_tool.suites.reports import Count
from fork_tool.suites.simulator import make_ready, simulator_machine
from fork_tool.suites.suite import PYTEST, SMALL_SAMPLE, Suite, upstream_sample, UPSTREAM_STYLE

_NAME = "patches"
_PROGRAMS = "aten/src/ATen/test/mps_test_*"


@dataclass
class Outcome:
    patch: str
    commit: str
    own_files: list[str]
    built: bool
    build_seconds: float
    own: Count
    sample: Count

    @property
    def good(self) -> bool:
        return self.built and not self.own.failed and not self.sample.failed


def own_tests(patch: Patch) -> list[str]:
    """The tests that a patch brings or changes, in Python and in C++, as paths below the checkout."""
    paths = (*patch.overlay, *(file.path for file in patch.files()))
    return [path for path in paths if _is_python(path) or PurePosixPath(path).match(_PROGRAMS)]


def _is_python(path: str) -> bool:
    return PurePosixPath(path).match("test/test_mps_*.py")


def test_patches(project: Project, chosen: Iterable[str]) -> list[Outcome]:
    """Build and test at each of the patches, all of them even after a failure."""
    machine = simulator_machine()
    make_ready(project, machine)
    layout = project.layout
    checkout = project.open_checkout()
    names = _chosen(project.series().names, list(chosen))
    whole = project.stack(checkout.git, checkout.base)
    wanted = [part_of_stack(project, checkout.git, whole, name).layers[-1] for name in names]
    tree = _worktree(project, checkout.git, checkout.base)
    outcomes = []
    for number, layer in enumerate(wanted, start=1):
        say(f"══ {number} of {len(wanted)}: {layer.patch.name}", style="bold")
        # Also while it tests: a second run would take the worktree to another patch.
        with exclusive(layout):
            tree.whole("checkout", "--quiet", "--detach", layer.commit)
            outcomes.append(_examine(project, machine, layer))
        _write(project, outcomes)
    _show(outcomes)
    return outcomes


def _chosen(known: list[str], names: list[str]) -> list[str]:
    for name in names:
        if name not in known:
            raise ForkToolError(f"There is no patch {name!r}: the series has {', '.join(known)}.")
    return [name for name in known if not names or name in names]


def _worktree(project: Project, git: Git, base: str) -> Git:
    """A worktree of the checkout, so that the files of two neighbouring patches differ in time stamps where they differ."""
    place = project.layout.patches_checkout
    if not place.exists():
        git.whole("worktree", "prune")
        git.whole("worktree", "add", "--quiet", "--detach", str(place), base)
    return Git(place)


def _examine(project: Project, machine: Machine, layer: Layer) -> Outcome:
    layout = project.layout
    build = layout.other_simulator_build(_NAME)
    files = own_tests(layer.patch)
    outcome = Outcome(layer.patch.name, layer.commit, files, False, 0.0, Count(), Count())
    start = time.monotonic()
    try:
        build_simulator(project, build, layout.patches_checkout, again=True, tests=True)
        outcome.built = True
    except ForkToolError as problem:
        say(str(problem), style="red")
    outcome.build_seconds = round(time.monotonic() - start, 1)
    if not outcome.built:
        return outcome
    for suite in _own_suites(project, layer.patch.name, files):
        outcome.own += run_suite(project, machine, suite, build)
    sample = replace(upstream_sample(SMALL_SAMPLE), name=f"{layer.patch.name}, upstream sample", on_device=True)
    outcome.sample = run_suite(project, machine, sample, build)
    return outcome


def _own_suites(project: Project, name: str, files: Iterable[str]) -> Iterator[Suite]:
    directory = project.layout.shown(project.layout.patches_checkout / "test")
    python = [str(PurePosixPath(path).relative_to("test")) for path in files if _is_python(path)]
    if python:
        yield Suite(f"{name}, own tests", (*UPSTREAM_STYLE, *python), on_device=True, directory=directory)
    programs = [PurePosixPath(path).stem for path in files if not _is_python(path)]
    if programs:
        # Of the programs that the checkout has, those of this patch.
        words = (*PYTEST, "test/cpp", "--program", ",".join(programs))
        yield Suite(f"{name}, own C++ tests", words, on_device=True)


def _write(project: Project, outcomes: Iterable[Outcome]) -> None:
    path = project.layout.reports / "patches.json"
    write_atomically(path, json.dumps([asdict(outcome) for outcome in outcomes], indent=1).encode())


def _show(outcomes: Iterable[Outcome]) -> None:
    table = Table("patch", "build", "own tests", "upstream sample")
    for outcome in outcomes:
        built = f"{outcome.build_seconds:.0f} s" if outcome.built else "FAILED"
        own = outcome.own.whole() if outcome.own_files else "none"
        table.add_row(outcome.patch, built, own, outcome.sample.whole())
    out.print(table)
