"""The process that the tests look at: official libraries and ours, loaded once, brought back to that state for each test."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fork_tool.common.files import write_atomically
from fork_tool.mac_library.libraries import load_libraries
from fork_tool.mac_library.make import Bench, bench_of, python_api
from fork_tool.mac_library.symbols import imports, PYTHON, system_names
from fork_tool.paths import own_layout
from fork_tool.series.project import Project
from mac_code.machine import Machine
from mac_code.process import Image, Process, System
from mac_code.runtime import build_probe, build_runtime, LIBCXX, LIBSYSTEM
from mac_code.system import MacOS
from mac_code.tables import Probe, Tables


@dataclass(frozen=True)
class Inputs:
    """The files that `make wheel` made, and what was built beside them."""

    bench: Bench
    torch: Path
    library: Path
    probe: Path
    systems: dict[str, System]
    files: dict[str, Path]


@dataclass
class Loaded:
    """The process with everything loaded, before the take-over."""

    machine: Machine
    macos: MacOS
    process: Process
    own: Image
    probe: Probe
    # Before our library was loaded.
    before: Tables
    snapshot: list[tuple[int, bytes]]
    report: dict[str, Any] = field(default_factory=dict)

    def load_step(self, step: int) -> str | None:
        """Call the library's one function for its loader."""
        answer = self.machine.call(self.own.address("_torch_mps_graph_load"), step)
        return self.machine.text(answer) if answer else None


@pytest.fixture(scope="session")
def inputs() -> Inputs:
    """The library as `make wheel` has left it."""
    bench = bench_of(Project(own_layout()), None)
    places = bench.places
    torch, library = places.official(bench.python) / "torch", places.library(bench.python)
    assert library.is_file() and torch.is_dir(), "There is no library for a Mac: run `make wheel` first."
    apple = load_libraries(places, torch)
    runtime = build_runtime(bench)
    libsystem = system_names(places) | {"_mac_code_stop"}
    files = {f"@rpath/{path.name}": path for path in sorted((torch / "lib").glob("*.dylib"))}
    taken: dict[str, set[str]] = {}
    for path in files.values():
        for each in imports(path):
            if not each.library.startswith("@rpath/"):
                taken.setdefault(each.library, set()).add(each.name)
    # What the official libraries take is there; ours may take no more than `make wheel` lets it.
    systems = {path: System(path.rsplit("/", 1)[-1], names.__contains__) for path, names in taken.items() if path}
    systems |= {each.path: System(each.path.rsplit("/", 1)[-1], each.names.__contains__) for each in apple}
    systems[PYTHON] = System(PYTHON, (python_api(bench) | taken[""]).__contains__)
    systems[LIBSYSTEM] = System("libSystem.B.dylib", libsystem.__contains__, (runtime.shim, runtime.unwind))
    systems[LIBCXX] = System("libc++.1.dylib", lambda name: False, (runtime.cxx,))
    return Inputs(bench, torch, library, build_probe(bench, torch, apple), systems, files)


@pytest.fixture(scope="session")
def first(inputs: Inputs) -> Iterator[Loaded]:
    """Load and initialize everything, in the order in which a process does."""
    began = time.monotonic()
    machine = Machine()
    macos = MacOS(machine)
    process = Process(machine, inputs.systems, inputs.files, macos.variables())
    macos.attach(process)
    for image in process.images:
        process.initialize(image)
    process.load(inputs.files["@rpath/libtorch_python.dylib"])
    # Those of libtorch_python need Python.
    for name in ("libc10", "libomp", "libtorch_cpu", "libtorch", "libshm"):
        process.initialize(process.image(f"{name}.dylib"))
    probe = Probe(process, process.load(inputs.probe))
    process.initialize(probe.image)
    before = probe.tables()
    own = process.load(inputs.library)
    process.initialize(own)
    loaded = Loaded(machine, macos, process, own, probe, before, machine.snapshot(macos.heap_end))
    loaded.report["seconds_to_load"] = round(time.monotonic() - began, 1)
    loaded.report["initializers"] = {image.name: image.initialized for image in process.images}
    yield loaded
    loaded.report["seconds"] = round(time.monotonic() - began, 1)
    text = json.dumps(loaded.report, indent=2, sort_keys=True) + "\n"
    write_atomically(inputs.bench.project.layout.reports / "mac_code.json", text.encode())


@pytest.fixture
def loaded(first: Loaded) -> Loaded:
    """The process as it was when everything was loaded."""
    first.machine.restore(first.snapshot)
    return first


