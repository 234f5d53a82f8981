"""Samples of upstream's tests: a rule with exceptions, or a share of such a rule.

A rule, by upstream's file:

    ["test_mps.py"]
    tests = ["*"]                   # ids to take, as patterns of the shell

    [["test_mps.py".operators]]     # tests made from the operator database: a few data types of each operator
    tests = "TestConsistencyCPU::test_output_match_{operator}_cpu_{dtype}"
    dtypes = 2
    first = "float32"               # it is one of them wherever it is not left out

    ["test_mps.py".slow]            # left out, with seconds
    "TestMPS::test_copy_large" = 3.2

A share of it, which is as stable:

    of = "other.toml"
    one_in = 6

    ["test_mps.py".slow]            # as in a rule, and only what the share would take

What is chosen does not depend on which other tests there are, but for the data types of the same operator. So a test that
upstream adds is taken in, and no other goes.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

_PLACES = {"{operator}": "(?P<operator>.+)", "{dtype}": "(?P<dtype>[a-z0-9_]+)"}


class SampleError(Exception):
    """A sample that cannot be read, or that says what is not so; the message says where and what."""


def _number(*words: str) -> int:
    """Returns a number that depends on nothing but the words, and is spread evenly."""
    return int.from_bytes(hashlib.sha256(" ".join(words).encode()).digest()[:8], "big")


def _complain(path: Path, what: str, tests: Iterable[str]) -> None:
    if named := sorted(tests):
        more = f" and {len(named) - 5} more" if len(named) > 5 else ""
        raise SampleError(f"{path}: {what}: {', '.join(named[:5])}{more}")


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Exceptions(_Table):
    """What is left out of one of upstream's files, with seconds."""

    slow: dict[str, float] = {}


class Operators(_Table):
    """Tests that the operator database makes for each data type, of which a few types of each operator are taken."""

    tests: str = Field(pattern=r"^[^{}]*\{operator\}[^{}]*\{dtype\}[^{}]*$")
    dtypes: int
    first: str

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        expression = re.escape(self.tests)
        for place, matches in _PLACES.items():
            expression = expression.replace(re.escape(place), matches)
        return re.compile(expression)

    def parts(self, test: str) -> tuple[str, str] | None:
        """Returns operator and data type, if the test is one of these."""
        found = self._expression.fullmatch(test)
        return (found["operator"], found["dtype"]) if found else None

    def _rank(self, operator: str, dtype: str) -> tuple[bool, int]:
        # Each type by itself: one that is new displaces at most one.
        return (dtype != self.first, _number(operator, dtype))

    def choose(self, tests: Iterable[str]) -> set[str]:
        """Returns the chosen of these tests."""
        by_operator: defaultdict[str, list[tuple[tuple[bool, int], str]]] = defaultdict(list)
        for test in tests:
            if parts := self.parts(test):
                by_operator[parts[0]].append((self._rank(*parts), test))
        return {test for ranked in by_operator.values() for _, test in sorted(ranked)[: self.dtypes]}


class FileRule(Exceptions):
    """What is chosen of one of upstream's files."""

    tests: list[str]
    operators: list[Operators] = []

    def choose(self, path: Path, ids: Collection[str]) -> list[str]:
        """Returns the chosen tests, in their order; `path` is for the message of an error."""
        _complain(path, "leaves out tests that there are not", self.slow.keys() - set(ids))
        unused = [pattern for pattern in self.tests if not any(fnmatchcase(test, pattern) for test in ids)]
        unused += [family.tests for family in self.operators if not any(map(family.parts, ids))]
        _complain(path, "no test has a name like", unused)
        taken = [test for test in ids if any(fnmatchcase(test, pattern) for pattern in self.tests)]
        # First, so that another data type of the same operator takes its place.
        needless = self.slow.keys() - set(taken)
        _complain(path, "leaves out tests that it does not take anyway", needless)
        chosen = set(taken) - self.slow.keys()
        for family in self.operators:
            own = {test for test in chosen if family.parts(test)}
            chosen -= own - family.choose(own)
        return [test for test in ids if test in chosen]


@dataclass(frozen=True)
class Rule:
    """A rule and its exceptions, by upstream's file."""

    path: Path
    files: dict[str, FileRule]

    def choose(self, file: str, ids: Collection[str]) -> list[str]:
        """Returns those of the file's tests that are in the sample; SampleError if it names one that there is not."""
        if file not in self.files:
            raise SampleError(f"{self.path} says nothing about {file}, but about {', '.join(self.files)}")
        return self.files[file].choose(self.path, ids)


class _ShareTable(_Table):
    of: str
    one_in: int = Field(ge=1)
    files: dict[str, Exceptions]


@dataclass(frozen=True)
class Share:
    """One in so many tests of another sample, with exceptions by upstream's file."""

    path: Path
    whole: Sample
    table: _ShareTable

    def choose(self, file: str, ids: Collection[str]) -> list[str]:
        """As a rule does."""
        taken = [test for test in self.whole.choose(file, ids) if _number(test) % self.table.one_in == 0]
        left_out = self.table.files.get(file, Exceptions()).slow
        _complain(self.path, "leaves out tests that it does not take anyway", left_out.keys() - set(taken))
        return [test for test in taken if test not in left_out]


Sample = Rule | Share


def read_sample(path: Path) -> Sample:
    """Reads a sample of any kind."""
    try:
        table = tomllib.loads(path.read_text("utf-8"))
        if "of" not in table:
            return Rule(path, TypeAdapter(dict[str, FileRule]).validate_python(table))
        share = _ShareTable(of=table.pop("of"), one_in=table.pop("one_in", None), files=table)
    except (OSError, ValueError) as error:  # what TOML and pydantic raise is a ValueError too
        raise SampleError(f"{path} cannot be read: {error}") from None
    return Share(path, read_sample(path.parent / share.of), share)
