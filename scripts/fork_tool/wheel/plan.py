"""The wheel's build as a list of steps: what is run and what a dry run prints are the same."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from fork_tool.base.checkout import Checkout
from fork_tool.machine.mac_facts import jobs_for, MacFacts
from fork_tool.series.project import Project

# What the build may see of the user's environment; anything else (conda, CFLAGS, CMAKE_PREFIX_PATH, …)
# would change what is built from one shell to the next.
_KEPT = (
    *("HOME", "USER", "LOGNAME", "TMPDIR", "LANG", "LC_ALL", "TERM", "DEVELOPER_DIR", "SDKROOT"),
    *("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE"),
)
_SYSTEM_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"
# CMake searches Homebrew's prefix on Apple silicon by itself, whatever PATH says, and MacPorts' and Fink's where told to.
_OTHER_PREFIXES = "/opt/homebrew;/usr/local;/opt/local;/sw"
CHECK_PROGRAM = "scripts/fork_tool/wheel/check.py"


@dataclass(frozen=True)
class WheelPlaces:
    """Where the parts of a build lie, all below build/wheel."""

    root: Path

    @property
    def environment(self) -> Path:
        return self.root / "environment"

    @property
    def wheels(self) -> Path:
        return self.root / "dist"

    @property
    def check(self) -> Path:
        return self.root / "check"

    @property
    def stamps(self) -> Path:
        return self.root / "stamps"


@dataclass(frozen=True)
class Step:
    """A command of a stage; `environment` is all that it sees, None the caller's."""

    command: tuple[str, ...]
    directory: Path
    environment: dict[str, str] | None = None


@dataclass(frozen=True)
class Stage:
    """Steps that are done together; `key` changes when they must be done again."""

    name: str
    heading: str
    key: str
    steps: tuple[Step, ...]
    # What to do when one of them fails.
    remedy: str


@dataclass(frozen=True)
class Plan:
    """All stages after the source is there."""

    version: str
    # Up to the platform, which the build says itself.
    name: str
    environment: dict[str, str]
    places: WheelPlaces
    stages: tuple[Stage, ...]

    def stage(self, name: str) -> Stage:
        """The stage of this name."""
        return next(stage for stage in self.stages if stage.name == name)


def series_digest(project: Project) -> str:
    """What the series is, from the files of this repository alone."""
    digest = hashlib.sha256(project.pin.commit.encode())
    for entry in project.entries():
        digest.update(entry.text())
        for path in entry.overlay:
            file = project.overlay_file(path, entry.name)
            digest.update(f"\0{file.mode} {path}\0".encode() + file.content)
    return digest.hexdigest()


def work_digest(checkout: Checkout) -> str:
    """What the checkout's files differ by from the base, committed or not."""
    words = ("diff", "--full-index", "--binary", "--no-renames", "--no-ext-diff", "--ignore-submodules=all")
    return hashlib.sha256(checkout.git.run(*words, checkout.base).stdout).hexdigest()


def version_of(project: Project, label: str) -> str:
    """The release's version with what was applied to the base."""
    return f"{project.pin.version}.{label}"


def label_of(project: Project, checkout: Checkout | None) -> str:
    """`s` and the series' hash, or `w` and that of the work in the checkout that patches/ does not have."""
    if checkout is not None and (checkout.unrefreshed or checkout.changed_files):
        return f"w{work_digest(checkout)[:10]}"
    return f"s{series_digest(project)[:10]}"


def build_environment(
    project: Project, places: WheelPlaces, version: str, jobs: int, chosen: dict[str, str]
) -> dict[str, str]:
    """Every variable that the build sees."""
    build = project.pin.wheel_build
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return kept | {
        "PATH": f"{places.environment / 'bin'}:{_SYSTEM_PATH}",
        "VIRTUAL_ENV": str(places.environment),
        "PYTHONNOUSERSITE": "1",
        "PYTHONUNBUFFERED": "1",
        "MACOSX_DEPLOYMENT_TARGET": build.macos,
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_IGNORE_PREFIX_PATH": _OTHER_PREFIXES,
        "PYTORCH_BUILD_VERSION": version,
        # setup.py wants one beside the version, and shows those above 1 only.
        "PYTORCH_BUILD_NUMBER": "1",
        "MAX_JOBS": str(jobs),
        **build.options,
        **chosen,
    }


def make_plan(
    project: Project,
    facts: MacFacts,
    python: str,
    label: str,
    chosen: dict[str, str] | None = None,
    jobs: int | None = None,
    device: bool = True,
) -> Plan:
    """The stages of a build of this version on this machine."""
    layout = project.layout
    places = WheelPlaces(layout.wheel)
    version = version_of(project, label)
    environment = build_environment(project, places, version, jobs or jobs_for(facts), chosen or {})
    told = {name: value for name, value in environment.items() if name not in (*_KEPT, "MAX_JOBS")}
    seen = [project.pin.commit, str(facts.python), facts.sdk, facts.compiler, facts.metal]
    seen += map("=".join, sorted(told.items()))
    requires = project.pin.wheel_build.requires
    inside, checker = str(places.environment / "bin" / "python"), str(places.check / "bin" / "python")
    pip = ("-m", "pip", "install", "--disable-pip-version-check", "--no-input")
    setup = (inside, "setup.py", "bdist_wheel")
    checked = [] if device else ["--no-device"]
    numpy = [requirement for requirement in requires if requirement.startswith("numpy==")]
    fix = "fix the errors that the compiler or CMake names (scripts/mac_wheel/README.md lists known ones)"
    stages = (
        Stage(
            "environment",
            "the build's own environment",
            _key(project.pin.commit, str(facts.python), *requires),
            (
                Step((python, "-m", "venv", "--clear", str(places.environment)), layout.root),
                Step((inside, *pip, "--quiet", *requires), layout.root),
            ),
            "check the network and the package index",
        ),
        Stage(
            "configure",
            "CMake",
            _key("configure", *seen),
            # CMake keeps what it was first told, and looks for new files in directories at this moment only.
            (Step((*setup, "--cmake", "--cmake-only"), layout.checkout, environment),),
            fix,
        ),
        Stage(
            "compile",
            "ninja, then the wheel",
            _key("compile", *seen),
            (Step((*setup, "--dist-dir", str(places.wheels)), layout.checkout, environment),),
            f"{fix}; what is compiled is kept",
        ),
        Stage(
            "check",
            "the wheel in an environment of its own",
            _key("check", *seen, *checked),
            (
                Step((python, "-m", "venv", "--clear", str(places.check)), layout.root),
                Step((checker, *pip, "--quiet", *numpy, *wheel_requirement(project, places, version)), layout.root),
                Step((checker, str(layout.root / CHECK_PROGRAM), "--version", version, *checked), places.root),
            ),
            "see which line failed; `make wheel FROM_SOURCE=1` checks again",
        ),
    )
    tag = "cp{}{}".format(*facts.python)
    name = f"{project.pin.wheel_name}-{version}-{tag}-{tag}-macosx_…_arm64.whl"
    return Plan(version, name, environment, places, stages)


def wheel_requirement(project: Project, places: WheelPlaces, version: str) -> tuple[str, ...]:
    """pip's words for the wheel that was built; no index has this version."""
    return ("--find-links", str(places.wheels), f"{project.pin.wheel_name}=={version}")


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
