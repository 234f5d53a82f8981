"""The library and the wheel that the tests look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from fork_tool.base.checkout import open_checkout
from fork_tool.common.processes import exclusive
from fork_tool.mac_library.archive import write_wheel
from fork_tool.mac_library.libraries import load_libraries
from fork_tool.mac_library.link import linker_of
from fork_tool.mac_library.make import bench_of, make_library, replaced_files
from fork_tool.mac_library.official import fetch_official
from fork_tool.mac_library.places import LIBRARY
from fork_tool.paths import own_layout
from fork_tool.series.project import Project
from made_wheel import Made, SmallLibraries


@pytest.fixture(scope="session")
def made() -> Made:
    """The library, brought up to date."""
    project = Project(own_layout())
    bench = bench_of(project, None)
    with exclusive(project.layout):
        library, torch = make_library(bench, linker_of(bench.machine))
    libraries = load_libraries(bench.places, torch)
    official = fetch_official(bench.places, bench.pin, bench.python, bench.cache)
    return Made(bench, library, official, torch, libraries)


@pytest.fixture(scope="session")
def replaced(made: Made) -> dict[str, bytes]:
    """What the wheel has otherwise than the official one."""
    bench = made.bench
    checkout = open_checkout(bench.checkout, bench.project.pin, "build/pytorch")
    return replaced_files(bench, checkout, made.official) | {f"torch/lib/{LIBRARY}": made.library.read_bytes()}


@pytest.fixture(scope="session")
def wheel(made: Made, replaced: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, written again."""
    return write_wheel(made.bench.pin, made.bench.python, made.official, replaced, tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def small(made: Made, tmp_path: Path) -> SmallLibraries:
    """A place for small libraries."""
    return SmallLibraries(made, tmp_path)
