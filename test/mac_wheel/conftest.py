"""What the tests of the library and of its code look at."""

import pytest

from fork_tool.common.processes import exclusive
from fork_tool.mac_library.libraries import load_libraries
from fork_tool.mac_library.link import linker_of
from fork_tool.mac_library.make import bench_of, make_library
from fork_tool.mac_library.official import fetch_official
from fork_tool.paths import own_layout
from fork_tool.series.project import Project
from made_wheel import Made


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
