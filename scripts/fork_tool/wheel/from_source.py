"""`wheel --from-source`: torch's wheel from the patched checkout, compiled and checked on a Mac.

setup.py compiles only what changed, so each run takes every step, and a run after one that was cut off goes on.
"""

import hashlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from fork_tool.base.checkout import Checkout
from fork_tool.base.fetch import fetch
from fork_tool.common.console import complain, say, show_command
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import remove
from fork_tool.common.processes import run_shown
from fork_tool.machine.mac_facts import examine, gather, jobs_for
from fork_tool.machine.machine import LACKS, Machine
from fork_tool.series.apply import bring_series
from fork_tool.series.project import Project
from fork_tool.wheel.build_lists import refuse_left_out

_UPDATE = ("git", "submodule", "update", "--init", "--recursive", "--depth", "1", "--jobs", "4", "--progress")
# What the build may see of the user's environment; anything else (conda, CFLAGS, CMAKE_PREFIX_PATH, …)
# would change what is built from one shell to the next.
_KEPT = (
    *("HOME", "USER", "LOGNAME", "TMPDIR", "LANG", "LC_ALL", "TERM", "DEVELOPER_DIR", "SDKROOT"),
    *("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE"),
)
_SYSTEM_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"
# CMake searches Homebrew's prefix on Apple silicon by itself, whatever PATH says, and MacPorts' and Fink's where told to.
_OTHER_PREFIXES = "/opt/homebrew;/usr/local;/opt/local;/sw"
_CHECK = "scripts/fork_tool/wheel/check.py"


@dataclass(frozen=True)
class Step:
    """A command, and what to do when it fails; `environment` is all that it sees, None the caller's."""

    command: tuple[str, ...]
    directory: Path
    remedy: str
    environment: dict[str, str] | None = None


@dataclass(frozen=True)
class Plan:
    """What is run after the source is there; a dry run prints the same."""

    version: str
    # Up to the platform, which the build says itself.
    name: str
    environment: dict[str, str]
    steps: tuple[Step, ...]


def refuse_other_machines(machine: Machine) -> None:
    """The wheel holds the MPS backend, which is built by Apple's tools alone."""
    if not machine.is_mac:
        raise ForkToolError(
            f"All of torch with the MPS backend is built on a Mac with Apple silicon, and this is {machine.system}: run "
            "`make wheel FROM_SOURCE=1` there, or `make wheel` here, which makes a wheel of the official one. "
            "`make wheel FROM_SOURCE=1 DRY_RUN=1` shows what the first would run."
        )
    machine.refuse_unsupported()


def build_wheel(project: Project, chosen: dict[str, str], jobs: int | None = None, device: bool = True) -> Path:
    """Build the wheel of what the checkout holds, and check it."""
    layout = project.layout
    refuse_lacks(project)
    checkout = _make_source(project)
    say(f"the base's lists take all {refuse_left_out(project)} files of the overlay")
    plan = make_plan(project, checkout, chosen, jobs, device)
    say(f"building {plan.name}")
    # setup.py packs all that lies there, also what an earlier series had.
    build = layout.checkout / "build"
    for leftover in (layout.wheel / "dist", *build.glob("lib.*"), *build.glob("bdist.*")):
        remove(leftover)
    layout.wheel.mkdir(parents=True, exist_ok=True)
    for step in plan.steps:
        if run_shown(step.command, step.directory, step.environment, _where(project, step)):
            raise ForkToolError(
                f"{Path(step.command[0]).name} {step.command[1]} failed (see above): {step.remedy}, then run "
                "`make wheel FROM_SOURCE=1` again; what is compiled is kept."
            )
    (wheel,) = (layout.wheel / "dist").glob("*.whl")
    unchecked = "" if device else ", but for what needs a device: on a Mac with a GPU, this command checks that too"
    say(f"{layout.shown(wheel)} is built and checked{unchecked}.")
    return wheel


def show_plan(project: Project, chosen: dict[str, str], jobs: int | None = None, device: bool = True) -> None:
    """Print what `build_wheel` would run; nothing is touched, on any machine."""
    layout = project.layout
    checkout = project.open_checkout() if layout.checkout.exists() else None
    plan = make_plan(project, checkout, chosen, jobs, device)
    say(f"Dry run: nothing is run or written. It would build {plan.name}.")
    if checkout is None:
        say(f"scripts/mpsfork fetch --source git, into {layout.shown(layout.checkout)}", style="dim")
    show_command(_UPDATE, layout.shown(layout.checkout))
    say("scripts/mpsfork apply, unless the checkout holds work that patches/ does not have", style="dim")
    say("the environment of setup.py, which sees nothing else:", style="bold")
    for name, value in sorted(plan.environment.items()):
        say(f"{name}={value}")
    for step in plan.steps:
        show_command(step.command, _where(project, step))


def make_plan(
    project: Project, checkout: Checkout | None, chosen: dict[str, str], jobs: int | None, device: bool
) -> Plan:
    """The steps of a build of what the checkout holds, on this machine."""
    layout, pin, facts = project.layout, project.pin, gather(project.layout)
    place, version = layout.wheel, f"{pin.version}.{_label(project, checkout)}"
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    environment = kept | {
        "PATH": f"{place / 'environment' / 'bin'}:{_SYSTEM_PATH}",
        "VIRTUAL_ENV": str(place / "environment"),
        "PYTHONNOUSERSITE": "1",
        "PYTHONUNBUFFERED": "1",
        "MACOSX_DEPLOYMENT_TARGET": pin.wheel_build.macos,
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_IGNORE_PREFIX_PATH": _OTHER_PREFIXES,
        "PYTORCH_BUILD_VERSION": version,
        # setup.py wants one beside the version, and shows those above 1 only.
        "PYTORCH_BUILD_NUMBER": "1",
        "MAX_JOBS": str(jobs or jobs_for(facts)),
        **pin.wheel_build.options,
        **chosen,
    }
    builder, checker = (str(place / name / "bin" / "python") for name in ("environment", "check"))
    requires = pin.wheel_build.requires
    numpy = [requirement for requirement in requires if requirement.startswith("numpy==")]
    # No index has this version.
    built = ("--find-links", str(place / "dist"), f"{pin.wheel_name}=={version}")
    network = "check the network and the package index"
    fix = "fix the errors that the compiler or CMake names (scripts/mac_wheel/README.md lists known ones)"

    def fresh(name: str, python: str, *packages: str) -> tuple[Step, Step]:
        words = (python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--quiet", *packages)
        made = (sys.executable, "-m", "venv", "--clear", str(place / name))
        return Step(made, layout.root, network), Step(words, layout.root, network)

    # --cmake: from an empty cache, since CMake keeps what it was first told, and looks for new files only then.
    build = (builder, "setup.py", "--cmake", "bdist_wheel", "--dist-dir", str(place / "dist"))
    check = (checker, str(layout.root / _CHECK), "--version", version, *(() if device else ("--no-device",)))
    steps = (
        *fresh("environment", builder, *requires),
        Step(build, layout.checkout, fix, environment),
        *fresh("check", checker, *numpy, *built),
        Step(check, place, "see which line failed"),
    )
    tag = "cp{}{}".format(*facts.python)
    return Plan(version, f"{pin.wheel_name}-{version}-{tag}-{tag}-macosx_…_arm64.whl", environment, steps)


def _label(project: Project, checkout: Checkout | None) -> str:
    """`s` and the series' hash, or `w` and that of the work in the checkout that patches/ does not have."""
    if checkout is not None and (checkout.unrefreshed or checkout.changed_files):
        words = ("diff", "--full-index", "--binary", "--no-renames", "--no-ext-diff", "--ignore-submodules=all")
        return f"w{hashlib.sha256(checkout.git.run(*words, checkout.base).stdout).hexdigest()[:10]}"
    digest = hashlib.sha256(project.pin.commit.encode())
    for entry in project.entries():
        digest.update(entry.text())
        for path in entry.overlay:
            file = project.overlay_file(path, entry.name)
            digest.update(f"\0{file.mode} {path}\0".encode() + file.content)
    return f"s{digest.hexdigest()[:10]}"


def refuse_lacks(project: Project) -> None:
    """Name everything that this Mac lacks at once."""
    findings = examine(gather(project.layout), project.pin)
    lacking = [finding for finding in findings if finding.state == LACKS]
    for finding in lacking:
        complain(f"{finding.name}: {finding.detail}; {finding.remedy}")
    if lacking:
        names = ", ".join(finding.name for finding in lacking)
        raise ForkToolError(f"This Mac can't build the wheel; it lacks {names}. The lines above say how to fix that.")


def _make_source(project: Project) -> Checkout:
    layout = project.layout
    shown = layout.shown(layout.checkout)
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


def _where(project: Project, step: Step) -> str:
    return "" if step.directory == project.layout.root else project.layout.shown(step.directory)
