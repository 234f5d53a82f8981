"""`make simulator BASE_ONLY=1`, as a contributor without a Mac uses it: the base's backend, without the series."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PATCHED = ROOT / "build" / "simulator"
PROGRAM = """
import torch
x = torch.arange(6.0).reshape(2, 3)
on_device = (x.to("mps") @ x.T.to("mps")).relu().sum(0)
assert on_device.device.type == "mps"
assert torch.equal(on_device.cpu(), (x @ x.T).relu().sum(0))
assert not hasattr(torch.mps, "graph_capture") and not hasattr(torch._C, "_MPSGraph"), "the series is here"
"""


def run(build: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mps_simulator", "--build", str(build), *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def build() -> Path:
    command = [str(ROOT / "scripts" / "mpsfork"), "simulator", "--base-only"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout[-8000:] + made.stderr[-2000:]
    assert "python -m mps_simulator --build build/simulator-base" in made.stdout
    return ROOT / "build" / "simulator-base"


def test_a_program_runs_on_the_backend_of_the_base(build: Path) -> None:
    done = run(build, "-c", PROGRAM)
    assert done.returncode == 0, done.stderr


def test_the_program_notices_the_series() -> None:
    done = run(PATCHED, "-c", PROGRAM)
    assert done.returncode != 0
    assert "AssertionError: the series is here" in done.stderr


def test_tests_of_upstream_run(build: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = run(build, "-m", "mps_simulator.run_test_mps", "-k", "TestAvgPool|TestTopK|TestPad", "--report", str(report))
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    totals = json.loads(report.read_text())["totals"]
    assert totals["passed"] > 5
    assert totals["failed"] == totals["errored"] == 0
