"""What Apple leaves open depends on ``MPS_SIMULATOR_SEED``, and on nothing else.

The order of commands in an indirect command buffer has its own case in
``metal_indirect_cases.mm``; the moment at which a command buffer completes, in
``metal_command_cases.mm``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from objective_cases import names_in, run_python

DIRECTORY = Path(__file__).parent
CASES = names_in([DIRECTORY / "seed_cases.mm"])
# What must hold whatever Apple leaves open.
ANYWAY = ("foundation_dispatch_cases.mm", "graph_core_cases.mm", "metal_command_cases.mm")


@pytest.mark.parametrize("case", CASES)
def test_seed_decides(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def printed(seed: int) -> str:
        monkeypatch.setenv("MPS_SIMULATOR_SEED", str(seed))
        result = run_python(f"failure = run('{case}')\nassert not failure, failure\n")
        assert result.returncode == 0, result.stderr
        return result.stdout

    by_seed = [printed(seed) for seed in range(4)]
    assert all(by_seed)
    assert len(set(by_seed)) > 1, "no seed makes a difference"
    assert printed(0) == by_seed[0]


@pytest.mark.parametrize("source", ANYWAY)
@pytest.mark.parametrize("seed", ["1", "3"])
def test_cases_hold_with_other_seeds(source: str, seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the seed 1 each synchronous block has another thread, and each graph run a command buffer of its own."""
    monkeypatch.setenv("MPS_SIMULATOR_SEED", seed)
    names = names_in([DIRECTORY / source])
    assert names
    result = run_python(
        f"failures = [(name, failure) for name in {names!r} if (failure := run(name))]\nassert not failures, failures\n"
    )
    assert result.returncode == 0, result.stderr
