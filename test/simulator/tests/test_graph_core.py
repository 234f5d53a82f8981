"""MPSGraph through its own API, by cases in Objective-C++; upstream's tests compare its operations with the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from objective_cases import failure_of, names_in

CASES = sorted(Path(__file__).parent.glob("graph_*_cases.mm"))


@pytest.mark.parametrize("name", names_in(CASES))
def test_core(name: str) -> None:
    failure = failure_of(name)
    assert not failure, failure
