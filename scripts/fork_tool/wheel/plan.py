"""The wheel's build as a list of steps: what is run and what a dry run prints are the same."""

from __future__ import annotations

import hashlib
import os
import sys
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


@dataclass
class Plan:
    """All stages after the source is there."""

    version: str
    # Up to the platform, which the build says itself.
    name: str
    environment: dict[str, str]
    # The folder of the build, and what it makes.
    place: Path
    stages: tuple[Stage, ...] = ()

    def key(self, name: str) -> str:
        """The key of the stage of this name."""
        return next(stage.key for stage in self.stages if stage.name == name)

    @property
    def wheels(self) -> list[Path]:
        """What was built of this version."""
        return sorted((self.place / "dist").glob(f"*-{self.version}-*.whl"))

    @property
    def requirement(self) -> tuple[str, ...]:
        """pip's words for the wheel that was built; no index has this version."""
        return ("--find-links", str(self.place / "dist"), f"{self.name.partition('-')[0]}=={self.version}")


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


def label_of(project: Project, checkout: Checkout | None) -> str:
    """`s` and the series' hash, or `w` and that of the work in the checkout that patches/ does not have."""
    if checkout is not None and (checkout.unrefreshed or checkout.changed_files):
        return f"w{work_digest(checkout)[:10]}"
    return f"s{series_digest(project)[:10]}"


def make_plan(
    project: Project,
    facts: MacFacts,
    checkout: Checkout | None,
    chosen: dict[str, str] | None = None,
    jobs: int | None = None,
    device: bool = True,
) -> Plan:
    """The stages of a build of what the checkout holds, on this machine."""
    layout, pin = project.layout, project.pin
    place, python, version = layout.wheel, sys.executable, f"{pin.version}.{label_of(project, checkout)}"
    environment = _environment(project, version, jobs or jobs_for(facts), chosen or {})
    told = {name: value for name, value in environment.items() if name not in (*_KEPT, "MAX_JOBS")}
    seen = [pin.commit, str(facts.python), facts.sdk, facts.compiler, facts.metal, *map("=".join, sorted(told.items()))]
    requires = pin.wheel_build.requires
    inside, checker = (str(place / name / "bin" / "python") for name in ("environment", "check"))
    pip = ("-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--quiet")
    setup = (inside, "setup.py", "bdist_wheel")
    checked = [] if device else ["--no-device"]
    numpy = [requirement for requirement in requires if requirement.startswith("numpy==")]
    fix = "fix the errors that the compiler or CMake names (scripts/mac_wheel/README.md lists known ones)"
    tag = "cp{}{}".format(*facts.python)
    plan = Plan(version, f"{pin.wheel_name}-{version}-{tag}-{tag}-macosx_…_arm64.whl", environment, place)
    plan.stages += (
        Stage(
            "environment",
            "the build's own environment",
            _key(pin.commit, str(facts.python), *requires),
            (
                Step((python, "-m", "venv", "--clear", str(place / "environment")), layout.root),
                Step((inside, *pip, *requires), layout.root),
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
            (Step((*setup, "--dist-dir", str(place / "dist")), layout.checkout, environment),),
            f"{fix}; what is compiled is kept",
        ),
        Stage(
            "check",
            "the wheel in an environment of its own",
            _key("check", *seen, *checked),
            (
                Step((python, "-m", "venv", "--clear", str(place / "check")), layout.root),
                Step((checker, *pip, *numpy, *plan.requirement), layout.root),
                Step((checker, str(layout.root / CHECK_PROGRAM), "--version", version, *checked), place),
            ),
            "see which line failed; `make wheel FROM_SOURCE=1` checks again",
        ),
    )
    return plan


def _environment(project: Project, version: str, jobs: int, chosen: dict[str, str]) -> dict[str, str]:
    """Every variable that the build sees."""
    build, own = project.pin.wheel_build, project.layout.wheel / "environment"
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return kept | {
        "PATH": f"{own / 'bin'}:{_SYSTEM_PATH}",
        "VIRTUAL_ENV": str(own),
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


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
