"""Runs the C++ tests of the checkout, one case for each of them."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ON_MAC = sys.platform == "darwin"
TIME_LIMIT = 300  # seconds for one program: a deadlock is a failure too

# Not run on the simulator, and why.
LEFT_OUT = {
    "MPSAllocator.MPSAllocatorCallbacks": "keeps random tensors of 400 MB until memory is short, and then lets go of one "
    "in ten: with the smallest limit at which that helps, more than 5 GB and minutes of a processor's time"
}
# One of its tests executes indirect commands as on a GPU that loads their pipelines by itself.
SETTINGS = {"mps_test_graph_capture": {"MPS_SIMULATOR_GPU_FAMILY": "9"}}


@dataclass(frozen=True)
class Place:
    """Where the sources are, and where their programs are."""

    sources: Path
    programs: Path


def find_place() -> Place:
    """The simulator's build, or on a Mac that of the wheel."""
    if ON_MAC:
        checkout = Path(__file__).resolve().parents[2] / "build" / "pytorch"
        programs = checkout / "build" / "bin"
    else:
        from mps_simulator._build import build_directory, read_build

        checkout = read_build().checkout
        programs = build_directory() / "aten_tests"
    return Place(checkout / "aten" / "src" / "ATen" / "test", programs)


PLACE = find_place()
SOURCES = {path.stem: path for path in PLACE.sources.glob("mps_test_*") if path.suffix in (".cpp", ".mm")}
ALL_PROGRAMS = sorted(SOURCES)


def names_of(listing: str) -> list[str]:
    """The tests that --gtest_list_tests shows: suites, and below each its tests, indented."""
    names, suite = [], ""
    for line in listing.splitlines():
        word = line.split("#")[0].rstrip()
        if word.endswith(".") and not line.startswith(" "):
            suite = word
        elif word.startswith("  ") and suite:
            names.append(suite + word.strip())
    return names


@functools.cache
def run(program: str) -> str:
    """What the program says when it runs its tests; one run serves all cases."""
    left_out = [] if ON_MAC else [f"--gtest_filter=-{':'.join(LEFT_OUT)}"]
    try:
        done = subprocess.run(
            [PLACE.programs / program, "--gtest_color=no", *left_out],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=TIME_LIMIT,
            check=False,
            env=os.environ | SETTINGS.get(program, {}),
        )
    except subprocess.TimeoutExpired as late:
        said = (late.stdout or b"").decode(errors="replace")
        return f"{said}\n{program} did not end within {TIME_LIMIT} seconds\n"
    return f"{done.stdout}\n{program} ended with {done.returncode}\n"


def part_of(said: str, name: str) -> str:
    """What a program said in one of its tests, and to the end if it did not finish it."""
    start = re.escape(f"[ RUN      ] {name}\n")
    end = rf"^\[(?:       OK |  FAILED  |  SKIPPED )\] {re.escape(name)}\b.*$"
    found = re.search(rf"^{start}(?s:.*?)(?:{end}|\Z)", said, re.MULTILINE)
    return found[0] if found else said


@functools.cache
def listed_by(program: str) -> tuple[str, ...]:
    """What the program lists; nothing when it is not there or does not start."""
    try:
        command = [PLACE.programs / program, "--gtest_list_tests"]
        return tuple(names_of(subprocess.run(command, capture_output=True, text=True, check=False).stdout))
    except OSError:
        return ()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Asks each program for its tests."""
    chosen = metafunc.config.getoption("--program")
    programs = chosen.split(",") if chosen else ALL_PROGRAMS
    if "name" in metafunc.fixturenames:
        cases = []
        for program in programs:
            for name in listed_by(program):
                left_out = [pytest.mark.skip(LEFT_OUT[name])] if not ON_MAC and name in LEFT_OUT else []
                cases.append(pytest.param(program, name, marks=left_out, id=name))
        metafunc.parametrize(("program", "name"), cases)
    elif "program" in metafunc.fixturenames:
        metafunc.parametrize("program", programs)


def test_aten(program: str, name: str) -> None:
    """One test of one program."""
    said = part_of(run(program), name)
    assert re.search(rf"^\[       OK \] {re.escape(name)}\b", said, re.MULTILINE), said


def test_program(program: str) -> None:
    """It is there, it has tests, and nothing goes wrong after the last of them."""
    if ON_MAC:
        assert (PLACE.programs / program).is_file(), (
            f"{program} is missing: build torch in build/pytorch with BUILD_TEST=1"
        )
    else:
        from mps_simulator._build import built_for_tests

        built_for_tests(f"{PLACE.programs.name}/{program}", [SOURCES[program]])
    assert listed_by(program), f"{program} lists no tests"
    said = run(program)
    assert said.endswith(f"\n{program} ended with 0\n"), said


def test_the_bases_programs_are_among_them() -> None:
    assert {"mps_test_allocator", "mps_test_metal_library", "mps_test_objc_interface", "mps_test_print"} <= set(
        ALL_PROGRAMS
    )


def test_listing_is_read() -> None:
    listing = "Running main() from gtest_main.cc\nOne.\n  First\n  Second  # GetParam() = 2\nTwo/0.  # TypeParam = int\n  Third\n"
    assert names_of(listing) == ["One.First", "One.Second", "Two/0.Third"]


def test_part_of_a_run() -> None:
    said = "[ RUN      ] A.B\nbad\n[  FAILED  ] A.B (1 ms)\n[ RUN      ] A.BC\n[       OK ] A.BC (1 ms)\n[ RUN      ] A.D\ncrash\n"
    assert part_of(said, "A.B") == "[ RUN      ] A.B\nbad\n[  FAILED  ] A.B (1 ms)"
    assert "OK" in part_of(said, "A.BC")
    assert part_of(said, "A.D").endswith("crash\n")
