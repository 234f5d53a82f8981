"""`doctor`: what this machine has, what it lacks, and the command that installs it."""

import shutil
import sys

from fork_tool.base.checkout import BRANCH, Checkout
from fork_tool.common.errors import ForkToolError
from fork_tool.machine.environment import refuse_environment_of_another, unsatisfied, wanted
from fork_tool.machine.machine import Finding, judge, LACKS, LATER, Machine, needs_of, OK, this_machine
from fork_tool.machine.simulator_build import is_built
from fork_tool.machine.unpacked import has_objfw
from fork_tool.paths import Layout
from fork_tool.series.project import Project

_COMFORTABLE_BYTES = 10_000_000_000


def examine(project: Project, machine: Machine | None = None) -> list[Finding]:
    """Look at everything; nothing is changed."""
    machine = machine or this_machine()
    layout, pin = project.layout, project.pin
    findings = [_machine(machine), Finding("Python", OK, f"{sys.version.split()[0]} in {sys.prefix}")]
    for need in needs_of(machine):
        place = need.found() or ""
        findings.append(judge(need.name, bool(place), place or f"needed: {need.purpose}", need.remedy(machine)))
    if machine.runs_simulator:
        there = has_objfw(layout, pin)
        detail = layout.shown(layout.objfw) if there else "needed: the simulator's Objective-C runtime"
        findings.append(judge("ObjFW", there, detail, "make setup"))
    findings.append(_requirements(project, machine))
    free = shutil.disk_usage(layout.root).free
    room = f"make room: {_COMFORTABLE_BYTES / 1e9:.0f} GB are comfortable"
    findings.append(judge("disk", free >= _COMFORTABLE_BYTES, f"{free / 1e9:.0f} GB free", room))
    findings += _checkout(project)
    if machine.runs_simulator:
        findings.append(_simulator(layout))
        findings += _environment(layout)
    return findings


def _machine(machine: Machine) -> Finding:
    detail = f"{machine.distribution or machine.system} on {machine.processor}"
    try:
        machine.refuse_unsupported()
    except ForkToolError as problem:
        return Finding("machine", LACKS, detail, str(problem))
    return Finding("machine", OK, detail)


def _requirements(project: Project, machine: Machine) -> Finding:
    requirements = wanted(project.layout, project.pin)
    lacking = unsatisfied(requirements)
    if machine.is_mac:
        lacking = [requirement for requirement in lacking if requirement != project.pin.wheel]
    if lacking:
        more = f" and {len(lacking) - 3} more" if len(lacking) > 3 else ""
        return Finding("requirements", LACKS, f"{', '.join(lacking[:3])}{more}", "make setup")
    return Finding("requirements", OK, f"{len(requirements)} pinned, {project.pin.wheel} among them")


def _simulator(layout: Layout) -> Finding:
    shown = layout.shown(layout.simulator_build)
    if is_built(layout.simulator_build):
        return Finding("simulator", OK, shown)
    begun = (layout.simulator_build / "mps_simulator.json").exists()
    detail = f"{shown}'s last build did not come to its end" if begun else shown
    return Finding("simulator", LATER, detail, "make simulator")


def _environment(layout: Layout) -> list[Finding]:
    try:
        refuse_environment_of_another(layout)
    except ForkToolError as problem:
        return [Finding("environment", LACKS, str(problem), "see left")]
    return []


def _checkout(project: Project) -> list[Finding]:
    layout = project.layout
    shown = layout.shown(layout.checkout)
    if not layout.checkout.exists():
        return [Finding("base", LATER, f"{shown} is not there", "make fetch")]
    try:
        checkout = project.open_checkout()
        series = _series(project, checkout)
    except ForkToolError as problem:
        return [Finding("base", LACKS, str(problem), "see left")]
    return [Finding("base", OK, f"PyTorch {project.pin.tag} in {shown}"), series]


def _series(project: Project, checkout: Checkout) -> Finding:
    tip = checkout.branch_tip
    if checkout.unrefreshed:
        detail = f"the branch {BRANCH} holds commits that patches/ does not have"
        return Finding("series", LATER, detail, "make refresh")
    if tip is None or tip != project.stack(checkout.git, checkout.base).tip:
        detail = f"{checkout.shown} does not hold the series as it is in patches/"
        return Finding("series", LATER, detail, "make apply")
    return Finding("series", OK, f"applied as {tip[:12]}")
