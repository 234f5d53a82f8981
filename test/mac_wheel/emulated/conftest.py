"""The process that the tests look at: official libraries and ours, loaded once, brought back to that state for each test."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import pytest

from fork_tool.common.files import write_atomically
from fork_tool.mac_library.make import python_api
from fork_tool.mac_library.symbols import system_names
from mac_code.loaded import Inputs, Loaded
from mac_code.messages import Messages
from mac_code.process import LIBCXX, LIBSYSTEM, PYTHON, Source
from mac_code.programs import in_child, MacPrograms, OnMac, run_all_natively
from mac_code.runtime import build_runtime
from mac_code.system import MacProcess
from mac_code.tables import Probe
from made_wheel import Made


@pytest.fixture(scope="session")
def inputs(made: Made) -> Inputs:
    """The library and what it runs with."""
    bench, official = made.bench, made.torch / "lib"
    runtime = build_runtime(bench, made.torch, made.libraries)
    files = {f"@rpath/{path.name}": path for path in official.glob("*.dylib")}
    files[LIBCXX] = runtime / "base/libc++.1.dylib"
    names = {each.path: each.names for each in made.libraries}
    names |= {LIBSYSTEM: system_names(bench.places), PYTHON: python_api(bench)}
    source = Source(files, names, official)
    simulator = bench.project.layout.simulator_build / "libmps_simulator.so"
    return Inputs(bench, made.library, official, runtime, simulator, lambda: MacProcess(runtime, source))


@pytest.fixture(scope="session")
def first(inputs: Inputs) -> Iterator[Loaded]:
    """Load and initialize everything, in the order in which a process does."""
    began = time.monotonic()
    process = inputs.new_process()
    process.load(inputs.official / "libtorch_python.dylib")
    # The initializers of libtorch_python need Python.
    for name in ("libc10", "libomp", "libtorch_cpu", "libtorch", "libshm"):
        process.initialize(process.image(f"{name}.dylib"))
    probe = Probe(process, process.load(inputs.runtime / "extensions/libprobe.dylib"))
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
    return cache(lambda macos: in_child(lambda: run_all_natively(inputs), macos))


@pytest.fixture
def on_mac(loaded: Loaded, inputs: Inputs) -> OnMac:
    """Do some work with the programs on the machine, in a copy of the process."""

    def run(work: Callable[[MacPrograms], Any], macos: str = "15.2", planted: Mapping[str, str] | None = None) -> Any:
        return in_child(lambda: work(MacPrograms(loaded, inputs, Messages(planted or {}))), macos)

    return run


@pytest.fixture
def loaded(first: Loaded) -> Loaded:
    """The process as it was when everything was loaded."""
    first.machine.restore(first.snapshot)
    return first
