"""Metal on the simulated device: each case of ``metal_*_cases.mm`` is a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from objective_cases import built_names, failure_of, names_in
from simulator_process import run_python

CASES = [path for path in sorted(Path(__file__).parent.glob("metal_*_cases.mm")) if path.name != "metal_exit_cases.mm"]


def test_every_case_is_built() -> None:
    assert set(names_in(CASES)) <= built_names()


@pytest.mark.parametrize("name", names_in(CASES))
def test_metal(name: str) -> None:
    failure = failure_of(name)
    assert not failure, failure


def test_device_in_a_forked_child_is_refused() -> None:
    result = run_python(
        "assert run('commands_run_after_commit') == ''\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    sys.stdout.write(run('commands_run_after_commit'))\n"
        "    sys.stdout.flush()\n"
        "    os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "assert run('commands_run_after_commit') == ''\n"
    )
    assert result.returncode == 0, result.stderr
    assert "Metal validation (simulator): -[MTL" in result.stdout
    assert "cannot be used in the child" in result.stdout


def test_device_first_used_in_a_forked_child_works() -> None:
    result = run_python(
        "child = os.fork()\n"
        "if child == 0:\n"
        "    sys.stdout.write(run('commands_run_after_commit') or 'fine')\n"
        "    sys.stdout.flush()\n"
        "    os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == "fine"


@pytest.mark.parametrize("case", ["leave_work_in_flight", "leave_a_blocked_queue"])
def test_process_ends_with_work_in_flight(case: str) -> None:
    result = run_python(f"print(run('{case}') or 'fine')")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "fine\n"
    assert result.stderr == ""


def test_unnoticed_failure_is_told_at_exit() -> None:
    result = run_python("print(run('leave_a_failure'))")
    assert result.returncode == 0
    assert "nobody waited for it" in result.stderr
    assert "left behind" in result.stderr
