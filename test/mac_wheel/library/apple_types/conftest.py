"""What the tests of Apple's types look at: read once."""

from __future__ import annotations

import pytest

from apple_declarations import BUILD, CHECKOUT, compiler_words, Declarations, read
from apple_facts import Facts, load
from apple_uses import gather, sources_of, Uses
from made_wheel import Made


@pytest.fixture(scope="session")
def declared() -> Declarations:
    """The simulator's headers, as its build compiles with them."""
    return read(compiler_words(BUILD / "compile_commands.json"))


@pytest.fixture(scope="session")
def facts() -> Facts:
    """The tables."""
    return load()


@pytest.fixture(scope="session")
def uses(made: Made) -> Uses:
    """The patched backend."""
    return gather(made.library, sources_of(CHECKOUT))
