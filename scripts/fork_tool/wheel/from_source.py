"""`wheel --from-source`: builds torch's wheel from the patched checkout on a Mac, checks it, and brings it to a Mac's tests.

A stage that is done leaves a stamp; the stamp names all that the stage depends on, so that a build that was
cut off goes on where it was, and one of another series, tool or option is made again.
"""

from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path

from fork_tool.base.checkout import Checkout
from fork_tool.base.fetch import fetch
from fork_tool.common.console import complain, say, show_command
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import remove, write_atomically
from fork_tool.common.processes import run_shown
from fork_tool.machine.environment import installed_version, lacking_modules
from fork_tool.machine.mac_facts import examine, gather, MacFacts
from fork_tool.machine.machine import LACKS, Machine, this_machine
from fork_tool.paths import Layout
from fork_tool.series.apply import bring_series
from fork_tool.series.project import Project
from fork_tool.wheel.build_lists import refuse_left_out
from fork_tool.wheel.plan import make_plan, Plan, Stage, Step

_UPDATE = ("git", "submodule", "update", "--init", "--recursive", "--depth", "1", "--jobs", "4", "--progress")


def refuse_other_machines(machine: Machine) -> None:
    """The wheel holds the MPS backend, which is built by Apple's tools alone."""
    if not machine.is_mac:
        raise ForkToolError(
            f"All of torch with the MPS backend is built on a Mac with Apple silicon, and this is {machine.system}: run "
            "`make wheel FROM_SOURCE=1` there, or `make wheel` here, which makes a wheel of the official one. "
            "`make wheel FROM_SOURCE=1 DRY_RUN=1` shows what the first would run."
        )
    machine.refuse_unsupported()


def build_wheel(
    project: Project,
    chosen: dict[str, str] | None = None,
    jobs: int | None = None,
    machine: Machine | None = None,
    facts: MacFacts | None = None,
    device: bool = True,
) -> Plan:
    """Bring the wheel of what the checkout holds up to date."""
    refuse_other_machines(machine or this_machine())
    facts = facts or gather(project.layout)
    refuse_lacks(project, facts)
    checkout = _make_source(project)
    _heading("file lists")
    say(f"the base's lists take all {refuse_left_out(project)} files of the overlay")
    plan = make_plan(project, facts, checkout, chosen, jobs, device)
    _heading("the wheel")
    _say_what_comes(plan, facts)
    for stage in plan.stages:
        _bring(project, plan, stage)
    wheel = plan.wheels[0]
    unchecked = (
        "" if device else ", but for what needs a device: on a Mac with a GPU, `make wheel FROM_SOURCE=1` checks it"
    )
    say(f"{project.layout.shown(wheel)} is built and checked{unchecked}.")
    return plan


def show_plan(project: Project, chosen: dict[str, str], jobs: int | None = None, device: bool = True) -> None:
    """Print what `build_wheel` would run; nothing is touched, on any machine."""
    layout, pin = project.layout, project.pin
    checkout = project.open_checkout() if layout.checkout.exists() else None
    facts = gather(layout)
    plan = make_plan(project, facts, checkout, chosen, jobs, device)
    say(f"Dry run: nothing is run or written. It would build {pin.wheel_name} {plan.version}.")
    _say_what_comes(plan, facts)
    if this_machine().is_mac:
        for finding in examine(facts, pin):
            say(f"{finding.name}: {finding.detail}{f' ({finding.remedy})' if finding.remedy else ''}")
    _heading("source")
    if checkout is None:
        say(f"scripts/mpsfork fetch --source git, into {layout.shown(layout.checkout)}", style="dim")
    show_command(_UPDATE, layout.shown(layout.checkout))
    say("scripts/mpsfork apply, unless the checkout holds work that patches/ does not have", style="dim")
    _heading("environment of setup.py (it sees nothing else)")
    for name, value in sorted(plan.environment.items()):
        say(f"{name}={value}")
    for stage in plan.stages:
        _heading(stage.heading)
        for step in stage.steps:
            show_command(step.command, _where(project, step))


def _say_what_comes(plan: Plan, facts: MacFacts) -> None:
    say(
        f"{plan.name}, for Python {'.'.join(map(str, facts.python))}, the one of .venv. For another one: `rm -r .venv`, "
        "then run this with MPSFORK_PYTHON=/path/to/python."
    )


def has_own_wheel(project: Project) -> bool:
    """Whether `.venv` has a torch with the series that was not installed from here."""
    layout, pin = project.layout, project.pin
    found = installed_version(pin.wheel_name)
    return found is not None and not _stamp_of_installed(layout).is_file() and not lacking_modules(layout, pin)


def bring_patched_torch(project: Project) -> None:
    """Leave a wheel of the user's where it is, with the checkout that its tests are in; else build and install one."""
    if not has_own_wheel(project):
        install_patched_torch(project)
        return
    if not project.layout.checkout.exists():
        fetch(project)
    bring_series(project)


def refuse_without_patched_torch(project: Project) -> None:
    """Fail, before anything is run or made, where there is neither a patched torch nor a wheel of it."""
    layout, pin = project.layout, project.pin
    found = installed_version(pin.wheel_name)
    if found is not None and not lacking_modules(layout, pin):
        return
    if wheel_stands(project):
        # What was installed of it is gone.
        _stamp_of_installed(layout).unlink(missing_ok=True)
        return
    python = layout.shown(Path(sys.prefix) / "bin" / "python")
    said = (
        f"There is no {pin.wheel_name} in {sys.prefix}"
        if found is None
        else f"The {pin.wheel_name} {found} in {sys.prefix} was built without the series: it has no torch.mps.graph_capture"
    )
    raise ForkToolError(
        f"{said}. `make wheel` makes a patched one in minutes; it, or a wheel from elsewhere, is "
        f"installed by `{python} -m pip install WHEEL`. scripts/mac_wheel/README.md lists the requirements of a build."
    )


def _stamp_of_installed(layout: Layout) -> Path:
    """There while the torch in .venv is one that was built here."""
    return layout.environment / ".mpsfork-patched-torch"


def install_patched_torch(project: Project) -> bool:
    """Build the wheel and install it in .venv; false when that one is there."""
    layout = project.layout
    stamp = _stamp_of_installed(layout)
    if stamp.is_file() and layout.checkout.exists():
        bring_series(project)
        if stamp.read_text() == _plan_of_checkout(project).key("compile"):
            return False
    plan = build_wheel(project)
    words = ("--quiet", "--disable-pip-version-check", "--force-reinstall", "--no-deps")
    if run_shown([str(layout.python), "-m", "pip", "install", *words, *plan.requirement], layout.root):
        raise ForkToolError("pip could not install the patched torch (see above): fix that and run this again.")
    importlib.invalidate_caches()
    write_atomically(stamp, plan.key("compile").encode())
    return True


def _plan_of_checkout(project: Project) -> Plan:
    layout = project.layout
    checkout = project.open_checkout()
    return make_plan(project, gather(layout), checkout)


def wheel_stands(project: Project) -> bool:
    """Whether the wheel of what the checkout holds is built and checked."""
    if not project.layout.checkout.exists():
        return False
    plan = _plan_of_checkout(project)
    stamp = plan.place / "stamps" / "check"
    return stamp.is_file() and stamp.read_text() == plan.key("check") and bool(plan.wheels)


def refuse_lacks(project: Project, facts: MacFacts) -> None:
    """Name everything that this Mac lacks at once."""
    _heading("this Mac")
    findings = examine(facts, project.pin)
    lacking = [finding for finding in findings if finding.state == LACKS]
    for finding in findings:
        if finding not in lacking:
            say(f"{finding.name}: {finding.detail}")
    for finding in lacking:
        complain(f"{finding.name}: {finding.detail}; {finding.remedy}")
    if lacking:
        names = ", ".join(finding.name for finding in lacking)
        raise ForkToolError(f"This Mac can't build the wheel; it lacks {names}. The lines above say how to fix that.")


def _make_source(project: Project) -> Checkout:
    layout = project.layout
    shown = layout.shown(layout.checkout)
    _heading("source")
    if not layout.checkout.exists():
        fetch(project, sources=("git",))
    if not (layout.checkout / ".gitmodules").exists():
        raise ForkToolError(
            f"{shown} has no submodules (it may come from the Debian tarball), and torch can't be built without them: "
            "move it away and run `make wheel FROM_SOURCE=1` where GitHub answers, or give a clone with `scripts/mpsfork fetch --checkout DIR`."
        )
    # One that is complete costs a second; one that was cut off is completed.
    if run_shown(_UPDATE, layout.checkout, where=shown):
        raise ForkToolError(
            f"The submodules of {shown} are not complete (see above): run `make wheel FROM_SOURCE=1` where GitHub answers."
        )
    bring_series(project)
    return project.open_checkout()


def _bring(project: Project, plan: Plan, stage: Stage) -> None:
    stamp = plan.place / "stamps" / stage.name
    _heading(stage.heading)
    if stamp.is_file() and stamp.read_text() == stage.key and _stands(project, plan, stage.name):
        say("done before")
        return
    stamp.unlink(missing_ok=True)
    plan.place.mkdir(parents=True, exist_ok=True)
    if stage.name == "compile":
        _remove_old_wheels(project, plan)
    began = time.monotonic()
    for step in stage.steps:
        if run_shown(step.command, step.directory, step.environment, _where(project, step)):
            raise ForkToolError(
                f"The stage “{stage.heading}” failed (see above): {stage.remedy}, then run `make wheel FROM_SOURCE=1` again."
            )
    if not _stands(project, plan, stage.name):
        raise ForkToolError(f"The stage “{stage.heading}” ended well and left nothing: see its output above.")
    write_atomically(stamp, stage.key.encode())
    minutes, seconds = divmod(round(time.monotonic() - began), 60)
    say(f"{stage.heading}: {minutes} min {seconds} s")


def _remove_old_wheels(project: Project, plan: Plan) -> None:
    """setup.py packs all that lies there, also what an earlier series had."""
    build = project.layout.checkout / "build"
    for leftover in (plan.place / "dist", *build.glob("lib.*"), *build.glob("bdist.*")):
        remove(leftover)


def _stands(project: Project, plan: Plan, stage: str) -> bool:
    """Whether what a stage makes is still there, whatever its stamp says."""
    if stage == "environment":
        return (plan.place / "environment" / "bin" / "python").exists()
    if stage == "configure":
        return (project.layout.checkout / "build" / "build.ninja").exists()
    return bool(plan.wheels)


def _where(project: Project, step: Step) -> str:
    return "" if step.directory == project.layout.root else project.layout.shown(step.directory)


def _heading(text: str) -> None:
    say(f"── {text}", style="bold")
