"""Packages of pinned versions: wheels downloaded by hash, and folders that are filled next to the project's environment."""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, StrictStr

from fork_tool.base.download import sha256_of
from fork_tool.base.pin_values import Number, Sha256, Table, Text
from fork_tool.common.console import say
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import is_filled, mark_filled, need_space, remove
from fork_tool.common.processes import run_shown
from fork_tool.series.project import Project


class PinnedWheel(Table):
    """A wheel, and how pip is asked for it."""

    requirement: Annotated[StrictStr, Field(pattern=r"^[\w.-]+==\S+$")]
    name: Annotated[StrictStr, Field(pattern=r"^[^/\s]+\.whl$")]
    size: Number
    sha256: Sha256
    platform: Text
    # The version of Python that it is for.
    python: Annotated[StrictStr, Field(pattern=r"^3\.\d+$")]
    # Asked when those that pip knows do not have it.
    index: Text | None = None


def fetch_pinned_wheel(wheel: PinnedWheel, cache: Path, root: Path, pin: str) -> Path:
    """The wheel in the cache, downloaded where it is not; `pin` names the file that has its hash."""
    path = cache / wheel.name
    if path.is_file():
        if path.stat().st_size == wheel.size and sha256_of(path) == wheel.sha256:
            return path
        path.unlink()
    cache.mkdir(parents=True, exist_ok=True)
    need_space(cache, wheel.size * 2, f"Downloading {wheel.name}")
    with tempfile.TemporaryDirectory(prefix=".wheel-", dir=cache) as scratch:
        requirement = Path(scratch) / "requirement.txt"
        requirement.write_text(f"{wheel.requirement} --hash=sha256:{wheel.sha256}\n")
        words = ("-m", "pip", "download", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:")
        platform = ("--platform", wheel.platform, "--python-version", wheel.python)
        command = [sys.executable, *words, *platform, "--dest", scratch, "--require-hashes", "-r", str(requirement)]
        found = Path(scratch) / wheel.name
        failed = run_shown(command, root)
        if (failed or not found.is_file()) and wheel.index:
            failed = run_shown([*command, "--index-url", wheel.index], root)
        if failed or not found.is_file():
            raise ForkToolError(
                f"The wheel {wheel.name} could not be downloaded with the hash in {pin} (see above): check the network "
                "and the package index, or correct the hash, then run this again."
            )
        size, digest = found.stat().st_size, sha256_of(found)
        if (size, digest) != (wheel.size, wheel.sha256):
            raise ForkToolError(
                f"{wheel.name} is not the wheel that {pin} names (sha256 {digest[:16]}…, {size} bytes; expected "
                f"{wheel.sha256[:16]}…, {wheel.size} bytes): nothing was made of it; download it again or correct {pin}."
            )
        found.replace(path)
    return path


def pip_command(python: Path, words: Sequence[str]) -> list[str]:
    """An installation that asks nothing and installs what it is told to, only."""
    quiet = ("--disable-pip-version-check", "--no-input", "--no-deps", "--quiet")
    return [str(python), "-m", "pip", "install", *quiet, *words]


MODEL_REQUIREMENTS = "requirements-models.txt"
# What upstream checks its sources with.
TOOL_REQUIREMENTS = "test/upstream/checks/requirements.txt"
_PIP = ("-m", "pip", "install", "--disable-pip-version-check", "--quiet")


def install_model_libraries(project: Project) -> bool:
    """Bring the libraries of real models to their versions; false when they were there.

    Without dependencies: what the libraries share with the project, torch above all, is the project's.
    """
    layout = project.layout
    words = ("--no-deps", "--target", str(layout.model_packages), "--requirement", MODEL_REQUIREMENTS)
    return _bring(project, MODEL_REQUIREMENTS, layout.model_packages, [[str(layout.python), *_PIP, *words]])


def install_upstream_tools(project: Project) -> bool:
    """Bring upstream's tools to their versions, in an environment of their own; false when they were there.

    The versions are those of the base's time, and differ from those that check this repository.
    """
    environment = project.layout.upstream_checks / "environment"
    python = environment / "bin" / "python"
    if not python.exists():
        # The packages without an interpreter are no environment.
        remove(environment)
    make = [str(project.layout.python), "-m", "venv", str(environment)]
    return _bring(
        project, TOOL_REQUIREMENTS, environment, [make, [str(python), *_PIP, "--requirement", TOOL_REQUIREMENTS]]
    )


def _bring(project: Project, requirements: str, folder: Path, commands: Sequence[Sequence[str]]) -> bool:
    """Empty and fill a folder if its requirements or the interpreter have changed, without which nothing in it runs."""
    layout = project.layout
    wanted = ((layout.root / requirements).read_bytes(), sys.version)
    if is_filled(folder, wanted):
        return False
    remove(folder)
    say(f"installing {requirements} in {layout.shown(folder)}")
    for command in commands:
        if run_shown(command, layout.root):
            raise ForkToolError(
                f"{requirements} could not be installed (see above): check the network and the package index, then run this again."
            )
    mark_filled(folder, wanted)
    return True
