"""The process that the tests look at: official libraries and ours, loaded once, brought back to that state for each test."""

import json
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from fork_tool.common.files import write_atomically
from fork_tool.common.processes import exclusive
from fork_tool.mac_library.libraries import load_libraries
from fork_tool.mac_library.link import linker_of
from fork_tool.mac_library.make import bench_of, make_library, python_api
from fork_tool.mac_library.symbols import system_names
from fork_tool.paths import own_layout
from fork_tool.series.project import Project
from mac_code.loaded import Inputs, Loaded
from mac_code.process import LIBSYSTEM, PYTHON, Source
from mac_code.programs import in_child, run_all_natively
from mac_code.runtime import build_runtime, LIBCXX
from mac_code.system import MacProcess
from mac_code.tables import Probe


@pytest.fixture(scope="session")
def inputs() -> Inputs:
    """The library, brought up to date."""
    project = Project(own_layout())
    bench = bench_of(project, None)
    places = bench.places
    with exclusive(project.layout):
        library, torch = make_library(bench, linker_of(bench.machine))
    apple = load_libraries(places, torch)
    runtime = build_runtime(bench, torch, apple)
    files = {f"@rpath/{path.name}": path for path in (torch / "lib").glob("*.dylib")} | {LIBCXX: runtime.cxx}
    names = {each.path: each.names for each in apple}
    names |= {LIBSYSTEM: system_names(places), PYTHON: python_api(bench)}
    source = Source(files, names, torch / "lib")
    simulator = bench.project.layout.simulator_build / "libmps_simulator.so"
    return Inputs(bench, library, source.official, runtime, simulator, lambda: MacProcess(runtime, source))


@pytest.fixture(scope="session")
def first(inputs: Inputs) -> Iterator[Loaded]:
    """Load and initialize everything, in the order in which a process does."""
    began = time.monotonic()
    process = inputs.new_process()
    process.load(inputs.official / "libtorch_python.dylib")
    # The initializers of libtorch_python need Python.
    for name in ("libc10", "libomp", "libtorch_cpu", "libtorch", "libshm"):
        process.initialize(process.image(f"{name}.dylib"))
    probe = Probe(process, process.load(inputs.runtime.probe))
    before = probe.tables()
    own = process.load(inputs.library)
    process.initialize(own)
    loaded = Loaded(process, own, probe, before, process.snapshot())
    loaded.report["seconds_to_load"] = round(time.monotonic() - began, 1)
    loaded.report["initializers"] = {image.name: image.initialized for image in process.images}
    yield loaded
    loaded.report["seconds"] = round(time.monotonic() - began, 1)
    text = json.dumps(loaded.report, indent=2, sort_keys=True) + "\n"
    write_atomically(inputs.bench.project.layout.reports / "mac_code.json", text.encode())


@pytest.fixture(scope="session")
def native_results(inputs: Inputs) -> Callable[[str], dict[str, Any]]:
    """The programs' results on the simulator, by version of macOS."""
    return cache(lambda macos: in_child(lambda: run_all_natively(inputs, macos), macos))


@pytest.fixture
def loaded(first: Loaded) -> Loaded:
    """The process as it was when everything was loaded."""
    first.machine.restore(first.snapshot)
    return first
