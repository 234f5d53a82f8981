"""What the tests of Apple's types look at: read once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from apple_check import Result
from apple_declarations import BUILD, CHECKOUT, compiler_words, Declarations, read
from apple_facts import Facts, load
from apple_uses import gather, Uses

# What the tests tell at the end, whether they pass or not.
TOLD = pytest.StashKey[list[str]]()


@pytest.fixture
def tell(pytestconfig: pytest.Config) -> Callable[[str, Result], None]:
    """Says at the end of the run how many were compared with whom, and how many with nothing."""

    def add(what: str, result: Result) -> None:
        by_source = ", ".join(f"{len(names)} by {source}" for source, names in sorted(result.confirmed.items()))
        line = f"Apple's {what}: {by_source}; unconfirmed: {len(result.unconfirmed)}"
        pytestconfig.stash.setdefault(TOLD, []).append(line)

    return add


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(TOLD, []):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def declared() -> Declarations:
    """The simulator's headers, as its build compiles with them."""
    return read(compiler_words(BUILD / "compile_commands.json"))


@pytest.fixture(scope="session")
def facts() -> Facts:
    """The tables."""
    return load()


@pytest.fixture(scope="session")
def uses() -> Uses:
    """The patched backend."""
    return gather(BUILD, CHECKOUT)
