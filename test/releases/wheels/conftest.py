"""What is known of a newer release, made once for all tests."""

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from fork_tool.paths import own_layout
from fork_tool.releases.linux import site_packages
from fork_tool.releases.make import CHOSEN, Made, make_release
from fork_tool.series.project import Project

# These run in another environment, on another torch.
collect_ignore = ["on_release", "stand_in"]


@pytest.fixture(scope="session")
def project() -> Project:
    return Project(own_layout())


@pytest.fixture(scope="session")
def made(project: Project) -> Made:
    return make_release(project, os.environ.get(CHOSEN))


@dataclass(frozen=True)
class Run:
    """How a program on the release's torch ended."""

    status: int
    output: str


@pytest.fixture(scope="session")
def on_release(made: Made) -> Callable[..., Run]:
    """Runs the release's Python, which has the series' Python files and the stand-in device."""
    if made.stand_in is None:
        pytest.skip(made.not_run)

    def run(*words: str | Path, directory: Path | None = None, **environment: str) -> Run:
        done = subprocess.run(
            [str(made.places.python), *map(str, words)],
            cwd=directory or made.places.root,
            env=os.environ | {"MPSFORK_STAND_IN": str(made.stand_in)} | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return Run(done.returncode, done.stdout)

    return run


@pytest.fixture(scope="session")
def packages(made: Made) -> Path:
    return site_packages(made.places, made.pin)
