"""`doctor`: what this machine has, what it lacks, and the command that installs it."""

from __future__ import annotations

import shutil
import sys

from fork_tool.base.checkout import BRANCH, open_checkout
from fork_tool.common.errors import ForkToolError
from fork_tool.machine.environment import refuse_environment_of_another, unsatisfied, wanted
from fork_tool.machine.mac_facts import examine as examine_mac
from fork_tool.machine.mac_facts import gather
from fork_tool.machine.machine import Finding, LACKS, LATER, Machine, needs_of, OK, this_machine
from fork_tool.machine.objfw import is_unpacked
from fork_tool.machine.simulator_build import is_built
from fork_tool.paths import Layout
from fork_tool.series.project import Project

_COMFORTABLE_BYTES = 10_000_000_000


def examine(project: Project, machine: Machine | None = None) -> list[Finding]:
    """Look at everything; nothing is changed."""
    machine = machine or this_machine()
    layout, pin = project.layout, project.pin
    findings = [_machine(machine), _python()]
    for need in needs_of(machine):
        place = need.found()
        findings.append(
            Finding(need.name, OK, place)
            if place
            else Finding(need.name, LACKS, f"needed: {need.purpose}", need.remedy(machine))
        )
    if machine.runs_simulator:
        there = is_unpacked(layout, pin)
        findings.append(
            Finding("ObjFW", OK, layout.shown(layout.objfw))
            if there
            else Finding("ObjFW", LACKS, "needed: the simulator's Objective-C runtime", "make setup")
        )
    if machine.is_mac:
        findings += examine_mac(gather(layout), pin)
    findings.append(_requirements(project, machine))
    free = shutil.disk_usage(layout.root).free
    enough = free >= _COMFORTABLE_BYTES
    findings.append(
        Finding(
            "disk",
            OK if enough else LACKS,
            f"{free / 1e9:.0f} GB free",
            "" if enough else f"make room: {_COMFORTABLE_BYTES / 1e9:.0f} GB are comfortable",
        )
    )
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


def _python() -> Finding:
    return Finding("Python", OK, f"{sys.version.split()[0]} in {sys.prefix}")


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
    return Finding(
        "simulator", LATER, f"{shown}'s last build did not come to its end" if begun else shown, "make simulator"
    )


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
        checkout = open_checkout(layout.checkout, project.pin, shown)
        tip = checkout.branch_tip
        findings = [Finding("base", OK, f"PyTorch {project.pin.tag} in {shown}")]
        if checkout.unrefreshed:
            return [
                *findings,
                Finding(
                    "series", LATER, f"the branch {BRANCH} holds commits that patches/ does not have", "make refresh"
                ),
            ]
        if tip is None or tip != project.stack(checkout.git, checkout.base).tip:
            return [
                *findings,
                Finding("series", LATER, f"{shown} does not hold the series as it is in patches/", "make apply"),
            ]
    except ForkToolError as problem:
        return [Finding("base", LACKS, str(problem), "see left")]
    return [*findings, Finding("series", OK, f"applied as {tip[:12]}")]
