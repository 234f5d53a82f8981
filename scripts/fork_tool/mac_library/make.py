"""`make wheel`: from the pins to a checked wheel. Each step leaves what is complete, and the next run goes on from it."""

import json
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from fork_tool.base.checkout import Checkout, open_checkout
from fork_tool.base.fetch import fetch, SMALL_FIRST
from fork_tool.common.console import complain, say
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import need_space, write_atomically
from fork_tool.common.processes import exclusive, run_shown
from fork_tool.mac_library.archive import install_findings, write_wheel
from fork_tool.mac_library.headers import lay_headers, python_headers, write_official_header
from fork_tool.mac_library.kernels import changed_kernels, describe_kernels, kernel_findings
from fork_tool.mac_library.libraries import load_libraries
from fork_tool.mac_library.link import link, link_words, linker_of
from fork_tool.mac_library.macho import load_command_findings
from fork_tool.mac_library.ninja_file import ninja_text, object_of, objects
from fork_tool.mac_library.official import fetch_official, unpack_official, uuid_of
from fork_tool.mac_library.pin import load_mac_pin, MacPin
from fork_tool.mac_library.places import LIBRARY, MacPlaces
from fork_tool.mac_library.python_files import changed_files
from fork_tool.mac_library.sources import units
from fork_tool.mac_library.symbols import (
    backend_functions,
    entries,
    imports,
    owner_findings,
    owner_of,
    python_names,
    system_names,
    undefined_in,
)
from fork_tool.mac_library.tools import compiler_environment, install_tools
from fork_tool.machine.machine import Machine, this_machine
from fork_tool.series.apply import bring_series
from fork_tool.series.project import Project


@dataclass(frozen=True)
class Bench:
    """What all steps need."""

    project: Project
    machine: Machine
    places: MacPlaces
    pin: MacPin
    python: str

    @property
    def cache(self) -> Path:
        return self.project.layout.cache

    @property
    def checkout(self) -> Path:
        return self.project.layout.checkout


def bench_of(project: Project, python: str | None, machine: Machine | None = None) -> Bench:
    """The places and pins of a build for one version of Python; the tool's own if none is named."""
    machine = machine or this_machine()
    if not machine.is_mac and machine.system != "Linux":
        raise ForkToolError(
            f"This is {machine.system}: the wheel for a Mac is made on Linux or on a Mac; use one of the two."
        )
    pin = load_mac_pin(project.layout.pin)
    python = python or f"{sys.version_info[0]}.{sys.version_info[1]}"
    pin.official_wheel(python)
    return Bench(project, machine, MacPlaces(project.layout.root), pin, python)


def make_wheel(project: Project, python: str | None = None, jobs: int | None = None) -> Path:
    """Bring the wheel up to date, check it, write the report; returns the wheel."""
    began = time.monotonic()
    bench = bench_of(project, python)
    linker = linker_of(bench.machine)
    library, torch = make_library(bench, linker, jobs)
    places, pin = bench.places, bench.pin
    _heading("wheel")
    official = fetch_official(places, pin, bench.python, bench.cache)
    checkout = checkout_of(bench)
    replaced = replaced_files(bench, checkout, official) | {f"torch/lib/{LIBRARY}": library.read_bytes()}
    wheel = write_wheel(pin, bench.python, official, replaced, places.dist)
    say(f"{places.shown(wheel)}: {wheel.stat().st_size:,} bytes, the official one {official.stat().st_size:,}")
    _heading("checks")
    changed = changed_kernels(checkout)
    found = [
        *library_findings(bench, library, exported(bench)),
        *kernel_findings(torch / "lib" / "libtorch_cpu.dylib", library, changed),
        *install_findings(wheel, pin, bench.python),
    ]
    api, taken = python_api(bench), imports(library)
    counts = Counter(owner_of(each, api) for each in taken)
    report = {
        "path": places.shown(wheel),
        "bytes": wheel.stat().st_size,
        "official_bytes": official.stat().st_size,
        "seconds": round(time.monotonic() - began, 1),
        "kernels": describe_kernels(changed),
        "undefined": counts,
        "findings": found,
    }
    write_atomically(project.layout.reports / "wheel.json", (json.dumps(report, indent=2) + "\n").encode())
    say(f"the library takes {len(taken)} names: " + ", ".join(f"{count} {owner}" for owner, count in counts.items()))
    for finding in found:
        complain(finding)
    if found:
        raise ForkToolError(f"{places.shown(wheel)} has {len(found)} faults, which are named above: don't install it.")
    _say_commands(bench, wheel)
    return wheel


@click.command()
@click.option("--jobs", type=click.IntRange(min=1), help="Compilers at once [default: the number of cores].")
@click.option("--python", metavar="X.Y", help="Python version of the wheel [default: the version of this tool].")
@click.pass_obj
def wheel(project: Project, jobs: int | None, python: str | None) -> None:
    """Make torch's wheel for a Mac and check it; an interrupted run resumes."""
    with exclusive(project.layout):
        make_wheel(project, python, jobs)


def make_library(bench: Bench, linker: str, jobs: int | None = None) -> tuple[Path, Path]:
    """Bring the library up to date; returns it and the folder `torch` of the official wheel."""
    project, places, pin = bench.project, bench.places, bench.pin
    layout = project.layout
    _heading("tools and sources")
    need_space(layout.build, 3_000_000_000, "The build")
    install_tools(places, pin)
    official = fetch_official(places, pin, bench.python, bench.cache)
    torch = unpack_official(places, pin, bench.python, official)
    if not layout.checkout.exists():
        fetch(project, sources=SMALL_FIRST)
    bring_series(project)
    lay_headers(places, pin, bench.cache)
    headers = python_headers(places, pin, bench.python, bench.cache)
    write_official_header(places, bench.python, uuid_of(torch / "lib" / "libtorch_cpu.dylib"))
    changed = changed_kernels(checkout_of(bench))
    say(f"kernels: {describe_kernels(changed)}")
    text = ninja_text(places, pin, bench.checkout, bench.python, headers, layout.python, bool(changed))
    write_atomically(places.ninja_file, text.encode())
    _heading("objects")
    ninja = [str(places.ninja), "-f", places.shown(places.ninja_file), *(["-j", str(jobs)] if jobs else [])]
    if run_shown(ninja, layout.root, _environment(bench)):
        raise ForkToolError(
            "The library does not compile (see above): fix the errors that the compiler names; what is compiled is kept."
        )
    _heading("library")
    libraries = load_libraries(places, torch)
    parts = objects(places, bench.checkout, bench.python)
    bound_late = python_imports(bench)
    library = places.library(bench.python)
    command = link_words(places, pin, linker, parts, library, torch, libraries, bound_late, exported(bench))
    link(places, command, library)
    say(f"{places.shown(library)}: {library.stat().st_size:,} bytes")
    return library, torch


def checkout_of(bench: Bench) -> Checkout:
    return open_checkout(bench.checkout, bench.project.pin, bench.project.layout.shown(bench.checkout))


def python_imports(bench: Bench) -> list[str]:
    found: set[str] = set()
    for unit in units(bench.places, bench.checkout):
        if unit.of_python:
            found |= undefined_in(object_of(bench.places, unit, bench.python))
    return sorted(found & python_api(bench))


def python_api(bench: Bench) -> frozenset[str]:
    """All names of Python's C API."""
    return frozenset(python_names(python_headers(bench.places, bench.pin, bench.python, bench.cache)))


def exported(bench: Bench) -> list[str]:
    """The names, some with `*`, that the library exports."""
    parts = objects(bench.places, bench.checkout, bench.python)
    return [*entries(bench.places), *backend_functions(parts)]


def library_findings(bench: Bench, library: Path, patterns: Sequence[str]) -> list[str]:
    roots = [str(bench.places.repository), str(Path.home())]
    return [
        *owner_findings(imports(library), python_api(bench), system_names(bench.places)),
        *load_command_findings(library, bench.pin, patterns, roots),
    ]


def replaced_files(bench: Bench, checkout: Checkout, official: Path) -> dict[str, bytes]:
    """The series' files by their paths in the wheel."""
    with zipfile.ZipFile(official) as archive:
        names = set(archive.namelist())
        return changed_files(
            bench.places, bench.pin, checkout, lambda name: archive.read(name) if name in names else None
        )


def _environment(bench: Bench) -> dict[str, str]:
    common = compiler_environment(bench.places, bench.pin)
    # What a precompiled header needs to be kept.
    return common | {"CCACHE_SLOPPINESS": f"pch_defines,{common['CCACHE_SLOPPINESS']}", "CCACHE_PCH_EXTSUM": "1"}


def _say_commands(bench: Bench, wheel: Path) -> None:
    say(
        f"{bench.places.shown(wheel)} is made and checked, as far as that goes without a Mac. On the Mac:", style="bold"
    )
    say(f"  python{bench.python} -m pip install {wheel.name}")
    say(f"  python{bench.python} -m torch.mps.check")


def _heading(text: str) -> None:
    say(f"── {text}", style="bold")
