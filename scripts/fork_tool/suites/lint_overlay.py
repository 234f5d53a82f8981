"""`lint-overlay`: the overlay's C++ and Objective-C++ with every warning an error, and clang-tidy's bugprone checks.

The compile commands are those of the simulator's build. Its headers and upstream's are system headers here: what
is looked at is the overlay alone, its own headers included. Each source is compiled twice, the second time with what
the oldest SDK has that the overlay must compile with.
"""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from fork_tool.common.console import out, say
from fork_tool.common.errors import ForkToolError
from fork_tool.machine.machine import Need
from fork_tool.paths import Layout
from fork_tool.series.overlay import list_overlay

# Not among the needs of `setup`: nothing else uses these 100 MB.
CLANG_TIDY = Need("clang-tidy 19", "looks for bugs in the overlay", ("clang-tidy-19",), "clang-tidy-19")
_SOURCES = (".mm", ".cpp", ".cc")
_EXTENSIONS, _BINDINGS = "test/cpp_extensions/", "torch/csrc/mps/Module.cpp"
_WARNINGS = ("-Wall", "-Wextra", "-Werror")
# The simulator's headers leave out then what came after macOS 13.3.
_OLDEST_SDK = "-DMPS_SIMULATOR_SDK=130300"
# Pairs of parameters that could be swapped: Metal's and upstream's signatures are full of them.
_CHECKS = "-*,bugprone-*,-bugprone-easily-swappable-parameters"
# Words of the build that have no place here: outputs, dependencies, and what silences warnings.
_DROPPED = re.compile(r"-c|-w|-W.*|-M[DMP]*|-fno-pch-timestamp")
_DROPPED_WITH_NEXT = ("-o", "-MF", "-MT", "-MQ")
# How CMake names a precompiled header and its source: each followed by -Xclang and a path.
_PRECOMPILED = ("-include-pch", "-include")


@dataclass(frozen=True)
class Unit:
    """A source of the overlay and the words with which it is compiled."""

    path: str
    source: Path
    directory: Path
    compiler: str
    words: tuple[str, ...]

    def compile(self, *options: str) -> list[str]:
        return [self.compiler, *options, *self.words, *_WARNINGS, "-fsyntax-only", str(self.source)]

    def tidy(self, overlay: Path) -> list[str]:
        only = f"--header-filter=^{re.escape(str(overlay))}/"
        words = ["--quiet", f"--checks={_CHECKS}", "--warnings-as-errors=*", only]
        return ["clang-tidy-19", *words, str(self.source), "--", *self.words]


def units_of(overlay: Path, checkout: Path, database: Path) -> list[Unit]:
    """The sources of the overlay as the simulator's build compiles them; one that it does not is an error."""
    try:
        commands = {Path(entry["file"]): entry for entry in json.loads(database.read_text("utf-8"))}
    except FileNotFoundError:
        raise ForkToolError(f"{database} is not there: run `make simulator`, then this again.") from None
    units, unknown = [], []
    for path in list_overlay(overlay):
        if path.endswith(_SOURCES):
            # The tests build extensions, with the headers that the bindings see.
            known = _BINDINGS if path.startswith(_EXTENSIONS) else path
            entry = commands.get(checkout / known)
            if entry is None:
                unknown.append(path)
                continue
            compiler, *words = shlex.split(entry["command"])
            directory = Path(entry["directory"])
            units.append(Unit(path, overlay / path, directory, compiler, tuple(_words(words, checkout, overlay))))
    if unknown:
        raise ForkToolError(
            f"The simulator's build does not compile {', '.join(unknown)}: `make simulator`, after test/simulator's "
            "CMakeLists.txt takes it."
        )
    if not units:
        raise ForkToolError(f"There is no C++ in {overlay}: nothing was looked at.")
    return units


def _words(words: list[str], checkout: Path, overlay: Path) -> Iterable[str]:
    # First of all, so that its headers are its own and not the checkout's copies, which are a system's here.
    yield f"-I{overlay / 'aten' / 'src'}"
    yield f"-I{overlay}"
    iterator = iter(words)
    for word in iterator:
        if word in _DROPPED_WITH_NEXT:
            next(iterator)
        elif word == "-Xclang":
            following = next(iterator)
            if following in _PRECOMPILED:
                # A file must name what it includes, and it was made with other directories and warnings.
                next(iterator)
                next(iterator)
            elif not _DROPPED.fullmatch(following):
                yield from (word, following)
        elif word.startswith("-I"):
            yield from ("-isystem", word[2:])
        elif not _DROPPED.fullmatch(word) and not word.startswith(str(checkout)):
            yield word


def lint(layout: Layout) -> int:
    """Look at every source; returns how many have something to complain about."""
    units = units_of(layout.overlay, layout.checkout, layout.simulator_build / "compile_commands.json")
    failed = 0
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for unit, said in zip(units, pool.map(lambda unit: complaints(unit, layout.overlay), units)):
            say(f"{'bad ' if said else 'good'} {unit.path}", style="bold red" if said else "")
            if said:
                out.print(said, markup=False)
                failed += 1
    say(f"{len(units)} sources looked at, {failed} with complaints")
    return failed


def complaints(unit: Unit, overlay: Path) -> str:
    """What compiler and clang-tidy say about a source; empty when neither complains."""
    said = [_run(command, unit.directory) for command in (unit.compile(), unit.tidy(overlay))]
    oldest = "" if said[0] else _run(unit.compile(_OLDEST_SDK), unit.directory)
    said.append(oldest and f"With the SDK of macOS 13.3:\n{oldest}")
    return "\n".join(text for text in said if text)


def _run(command: list[str], directory: Path) -> str:
    """What a command complains about; empty when there is nothing."""
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    lines = [
        line for line in (done.stdout + done.stderr).splitlines() if not re.match(r"\d+ warnings? generated", line)
    ]
    return "\n".join(lines) or f"{command[0]} ended with {done.returncode}"
