"""Mutants: small faults, each with a header that names it and the suites that should notice it."""

import re
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from fork_tool.common.errors import ForkToolError
from fork_tool.series.diffs import FileDiff, Hunk

# Seconds for one suite, unless the header says otherwise.
LIMIT = 300.0
_SUITE, _LIMIT, _TIMEOUT = "Suite", "Limit", "Timeout"


class DoesNotApply(Exception):
    """The lines that a mutant changes are not there, or are there more than once."""


@dataclass(frozen=True)
class MutantSuite:
    """Some tests of a suite, by the words that choose them."""

    name: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}: {shlex.join(self.words)}"


@dataclass(frozen=True)
class Mutant:
    name: str
    fault: str
    suites: tuple[MutantSuite, ...]
    # Seconds for each of its suites.
    limit: float
    # Whether a suite that does not end has noticed it.
    hangs: bool
    text: bytes
    files: tuple[FileDiff, ...]

    @property
    def paths(self) -> list[str]:
        return [file.path for file in self.files]


def read_mutants(directory: Path) -> list[Mutant]:
    found = [mutant for path in sorted(directory.glob("*.patch")) for mutant in read_file(path)]
    names = [mutant.name for mutant in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ForkToolError(f"Mutants need names of their own; these are there twice: {', '.join(twice)}.")
    return sorted(found, key=lambda mutant: mutant.name)


def read_file(path: Path) -> list[Mutant]:
    """Read the mutants of one file; each begins with a line 'Mutant: its name: its fault'."""
    before, *parts = re.split(rb"^Mutant: ([\w-]+): ", path.read_bytes(), flags=re.MULTILINE)
    if before.strip() or not parts:
        raise ForkToolError(f"test/mutants/{path.name} must begin with a line 'Mutant: name: fault'.")
    return [_mutant(path, name.decode(), text.rstrip(b"\n") + b"\n") for name, text in zip(parts[::2], parts[1::2])]


def _mutant(path: Path, mutant: str, text: bytes) -> Mutant:
    shown = f"test/mutants/{path.name}: {mutant}"
    header, *changes = re.split(rb"^File: (.+)\n", text, flags=re.MULTILINE)
    fields = _fields(header.decode("utf-8"), shown)
    suites = fields.get(_SUITE, [])
    files: dict[str, FileDiff] = {}
    for name, change in zip(changes[::2], changes[1::2]):
        file = files.setdefault(name.decode(), FileDiff(name.decode()))
        file.hunks.append(Hunk(name.decode(), 1, 1, lines=change.rstrip(b"\n").split(b"\n")))
        odd = [line for line in file.hunks[-1].lines if line[:1] not in (b" ", b"-", b"+")]
        if odd or file.hunks[-1].before == file.hunks[-1].after:
            raise ForkToolError(
                f"{shown} {f'has {odd[0]!r} in a change' if odd else 'changes nothing'} of {name.decode()}."
            )
    if not files:
        raise ForkToolError(f"{shown} has no line 'File: …' with a change below it.")
    if not (fields[""][0] and suites):
        raise ForkToolError(f"{shown} needs its fault behind the name, and lines 'Suite: name of the suite: tests'.")
    return Mutant(
        mutant,
        fields[""][0],
        tuple(_suite(value, shown) for value in suites),
        _limit(fields.get(_LIMIT, []), shown),
        _TIMEOUT in fields,
        text,
        tuple(files.values()),
    )


def _fields(header: str, shown: str) -> dict[str, list[str]]:
    """The header's lines by their names, the fault by none; one that begins with a blank goes on with the line before."""
    fault, *lines = header.splitlines() or [""]
    last = [fault]
    fields = {"": last}
    for line in lines:
        name, colon, value = line.partition(": ")
        if line.startswith(" "):
            last[-1] += " " + line.strip()
        elif colon and name in (_SUITE, _LIMIT, _TIMEOUT):
            last = fields.setdefault(name, [])
            last.append(value.strip())
        elif line.strip():
            raise ForkToolError(f"{shown} has a line that is no field of a mutant's header: {line!r}.")
    return fields


def _suite(value: str, shown: str) -> MutantSuite:
    name, colon, words = value.partition(": ")
    if not colon or not words.strip():
        raise ForkToolError(f"{shown}: 'Suite: {value}' names no tests; 'Suite: fork tool: test/tools/fork_tool' does.")
    return MutantSuite(name.strip(), tuple(shlex.split(words)))


def _limit(values: list[str], shown: str) -> float:
    try:
        return float(values[0]) if values else LIMIT
    except ValueError:
        raise ForkToolError(f"{shown}: 'Limit: {values[0]}' is no number of seconds.") from None


def mutated(files: Iterable[FileDiff], read: Callable[[str], bytes]) -> dict[str, bytes]:
    """The content of each file with the fault in it; `read` gives that of a path, or raises DoesNotApply."""
    return {file.path: _with_hunks(read(file.path), file) for file in files}


def _with_hunks(content: bytes, file: FileDiff) -> bytes:
    lines = content.split(b"\n")
    for hunk in file.hunks:
        # Wherever it is now, it must be one place.
        places = hunk.places_in(lines)
        if len(places) != 1:
            found = "not there" if not places else f"there {len(places)} times"
            raise DoesNotApply(f"{file.path}: {hunk.before[0].decode()!r} with what follows is {found}")
        hunk.replace_at(lines, places[0])
    return b"\n".join(lines)
