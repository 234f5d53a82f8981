"""`python -m torch.mps.check`, on the simulator: what it shows, and that each of its comparisons can fail."""

import getpass
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
# `torch.mps.check` where the wheel has it, next to what the simulator runs.
BEGIN = f"""
import runpy, sys
import torch
import torch.mps
torch.mps.__path__.append({str(ROOT / "scripts" / "mac_wheel" / "python" / "mps")!r})
sys.argv = ["check", *sys.argv[1:]]
"""
RUN = "runpy.run_module('torch.mps.check', run_name='__main__', alter_sys=True)\n"

pytestmark = pytest.mark.skipif(
    sys.platform == "darwin", reason="a Mac runs it on the device, after the wheel is there"
)


def simulated(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a program on the simulator."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "test" / "simulator")}
    command = [sys.executable, "-m", "mps_simulator", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def run_check(tmp_path: Path, fault: str = "", *words: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    program, report = tmp_path / "program.py", tmp_path / "report.json"
    program.write_text(BEGIN + fault + RUN)
    run = simulated(str(program), "--json", str(report), *words)
    return run, json.loads(report.read_text()) if report.exists() else {}


def test_all_is_good(tmp_path: Path) -> None:
    run, report = run_check(tmp_path, "", "--passes", "3")
    assert run.returncode == 0, run.stderr
    assert report["bad"] == [] and len(report["checks"]) == 25
    assert {each["result"] for each in report["checks"]} == {"equal", "kept"}
    assert report["backend"] == {"patched": True, "how": "part of torch", "reason": ""}
    assert report["machine"]["simulated"] and "SIMULATED" in run.stdout and "no GPU was used" in run.stdout
    assert len(report["times"]) == 10
    assert all(
        row[kind][clock] > 0 for row in report["times"] for kind in ("eager", "replay") for clock in ("wall", "cpu")
    )
    assert "25 of 25 checks are good" in run.stdout


def test_nothing_private(tmp_path: Path) -> None:
    run, _ = run_check(tmp_path, "", "--passes", "0")
    text = run.stdout + (tmp_path / "report.json").read_text()
    private = {socket.gethostname(), str(Path.home()), str(ROOT), str(tmp_path)}
    # a user called "root" says nothing
    private |= {getpass.getuser()} - {"root"}
    assert not [word for word in private if len(word) > 1 and word in text]


def test_replay_left_out(tmp_path: Path) -> None:
    """Each comparison sees it."""
    run, report = run_check(tmp_path, "torch.mps.MPSGraph.replay = lambda graph: None\n", "--passes", "0")
    assert run.returncode == 1
    compared = [each for each in report["checks"] if each["result"] not in ("kept", "broken")]
    assert len(compared) == 17
    assert {each["result"] for each in compared} == {"different"}


def test_replay_done_twice(tmp_path: Path) -> None:
    """What changes its inputs or draws sees it."""
    twice = "once = torch.mps.MPSGraph.replay\ntorch.mps.MPSGraph.replay = lambda graph: (once(graph), once(graph))\n"
    run, report = run_check(tmp_path, twice, "--passes", "0")
    assert run.returncode == 1
    assert {"updates in place", "a training step", "random numbers"} <= set(report["bad"])


def test_official_backend_in_charge(tmp_path: Path) -> None:
    loader = """
import types
torch._mps_graph_loader = types.ModuleType("torch._mps_graph_loader")
torch._mps_graph_loader.in_charge = lambda: False
torch._mps_graph_loader.reason = lambda: "it was tried"
torch._mps_graph_loader.trouble = lambda: None
"""
    run, report = run_check(tmp_path, loader)
    assert run.returncode == 2 and report == {}
    assert "not in charge of the device: it was tried" in run.stderr


def test_bad_number(tmp_path: Path) -> None:
    run, _ = run_check(tmp_path, "", "--passes", "-1")
    assert run.returncode == 2 and "--passes must not be negative" in run.stderr
