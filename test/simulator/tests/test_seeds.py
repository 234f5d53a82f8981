"""What Apple leaves open depends on ``MPS_SIMULATOR_SEED``, and on nothing else.

The order of commands in an indirect command buffer has its own case in
``metal_indirect_cases.mm``; the moment at which a command buffer completes, in
``metal_command_cases.mm``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from objective_cases import built_names, names_in, run_python

if TYPE_CHECKING:
    from collections.abc import Iterator

DIRECTORY = Path(__file__).parent
CASES = names_in([DIRECTORY / "seed_cases.mm"])
# What must hold whatever Apple leaves open.
ANYWAY = ("foundation_dispatch_cases.mm", "graph_core_cases.mm", "metal_command_cases.mm")


@pytest.fixture
def seed() -> Iterator[None]:
    """Leaves the variable as it was."""
    before = os.environ.get("MPS_SIMULATOR_SEED")
    yield
    if before is None:
        os.environ.pop("MPS_SIMULATOR_SEED", None)
    else:
        os.environ["MPS_SIMULATOR_SEED"] = before


def printed(case: str, seed: int) -> str:
    """Runs a case with a seed; returns what it printed."""
    os.environ["MPS_SIMULATOR_SEED"] = str(seed)
    result = run_python(f"failure = run('{case}')\nassert not failure, failure\n")
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_every_case_is_built() -> None:
    assert CASES
    assert set(CASES) <= built_names()


@pytest.mark.usefixtures("seed")
@pytest.mark.parametrize("case", CASES)
def test_seed_decides(case: str) -> None:
    by_seed = [printed(case, seed) for seed in range(4)]
    assert all(by_seed)
    assert len(set(by_seed)) > 1, "no seed makes a difference"
    assert printed(case, 0) == by_seed[0]


@pytest.mark.usefixtures("seed")
@pytest.mark.parametrize("source", ANYWAY)
@pytest.mark.parametrize("seed_value", [1, 3])
def test_cases_hold_with_other_seeds(source: str, seed_value: int) -> None:
    """With the seed 1 each synchronous block has another thread, and each graph run a command buffer of its own."""
    os.environ["MPS_SIMULATOR_SEED"] = str(seed_value)
    names = names_in([DIRECTORY / source])
    assert names
    result = run_python(
        f"failures = [(name, failure) for name in {names!r} if (failure := run(name))]\nassert not failures, failures\n"
    )
    assert result.returncode == 0, result.stderr
