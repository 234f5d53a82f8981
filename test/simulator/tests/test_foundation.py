"""Foundation, dispatch and MetalPerformanceShaders objects, by cases in Objective-C++."""

from __future__ import annotations

from pathlib import Path

import pytest

from objective_cases import failure_of, names_in, run_python

TESTS = Path(__file__).parent
SOURCES = sorted([*TESTS.glob("foundation_*_cases.mm"), *TESTS.glob("performance_shaders_*_cases.mm")])


@pytest.mark.parametrize("name", names_in(SOURCES))
def test_case(name: str) -> None:
    failure = failure_of(name)
    assert not failure, failure


def test_exception_in_an_asynchronous_block_ends_the_process() -> None:
    result = run_python("cases.simulator_throw_asynchronously()\n")
    assert result.returncode != 0
    assert "an exception left an asynchronous block: no caller can catch this" in result.stderr
