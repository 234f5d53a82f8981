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


@pytest.mark.parametrize("factor, result, status", [(2**-22, "differs by rounding", 0), (2**-10, "different", 1)])
def test_rounding_is_told_apart(tmp_path: Path, factor: float, result: str, status: int) -> None:
    """Each call multiplies by another number, and a replay by that of the capture."""
    other = f"""
import itertools
from torch.mps.check import comparison, kinds
calls = itertools.count(1)
case = comparison.Case("calls", lambda: [torch.randn(8)], lambda x: x * (1 + {factor} * next(calls)))
kinds.cases = lambda: [case]
"""
    run, report = run_check(tmp_path, other, "--passes", "0")
    assert run.returncode == status, run.stderr
    assert report["checks"][0]["result"] == result
    assert f"**calls**: {result}: by up to" in run.stdout


def test_known_problems_are_named(tmp_path: Path) -> None:
    machine = """
from torch.mps.check import machine
describe = machine.describe
machine.describe = lambda: {**describe(), "macos": "15.3.1", "chip": "Apple M2 Pro"}
"""
    run, report = run_check(tmp_path, machine + "torch.mps.MPSGraph.replay = lambda graph: None\n", "--passes", "0")
    assert len(report["known_problems"]) == 2
    assert "Reported for eager on such a machine: strided" in run.stdout and "#195163" in run.stdout


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


STEP = """
import torch

layers = [torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.GELU()) for _ in range(5)]
model = torch.nn.Sequential(*layers).to("mps").requires_grad_(False)
x = torch.randn(4, 16, device="mps")


def good():
    return model(x)


def reads():
    return x * 2 if model(x).sum().item() > 0 else x


def falls_back():
    return torch.linalg.svd(model(x))[1]
"""


def run_profile(tmp_path: Path, function: str, *words: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    (tmp_path / "mine.py").write_text(STEP)
    return run_check(tmp_path, "", "--passes", "2", "--profile", f"{tmp_path / 'mine.py'}:{function}", *words)


def test_profile(tmp_path: Path) -> None:
    page = tmp_path / "step.html"
    run, report = run_profile(tmp_path, "good", "--html", str(page))
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("SIMULATED: the CPU needs") and "until GPU is done" not in run.stdout
    assert report["operators"] == {"count": 10, "host_reads": [], "fallbacks": []}
    assert report["steps"] == 10 and report["simulated"] and report["problem"] == ""
    assert report["eager"]["submitted"] > report["replay"]["submitted"] > 0
    text = page.read_text()
    assert [name for name in ("eager", "capture", "replay") if f"<h2>{name}: " not in text] == []
    assert text.count(">aten::gelu</span>") == 10 and "SIMULATED" in text and "http" not in text


def test_profile_of_a_step_that_is_not_captured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "step.html"
    run, report = run_profile(tmp_path, "reads", "--html", str(page))
    line = STEP[: STEP.index("    return x * 2")].count("\n") + 1
    place = f"{tmp_path / 'mine.py'}:{line} (reads)"
    assert report["operators"]["host_reads"] == [f"aten::_local_scalar_dense at {place}"]
    assert place in report["problem"] and report["replay"] == {}
    assert "A capture raises" in run.stdout and "A capture raises" in page.read_text()
    monkeypatch.setenv("PYTORCH_ENABLE_MPS_FALLBACK", "1")
    run, report = run_profile(tmp_path, "falls_back")
    [found] = report["operators"]["fallbacks"]
    assert found.startswith("aten::linalg_svd at ") and found in run.stdout


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("mine", "'mine' is not of the form module:function or file.py:function"),
        ("none.py:step", "there is no file none.py"),
        ("no_such_module:step", "there is no module no_such_module"),
        ("json:step", "json has no function step"),
    ],
)
def test_profile_of_nothing(tmp_path: Path, name: str, sentence: str) -> None:
    run, report = run_check(tmp_path, "", "--profile", name)
    assert (run.returncode, report) == (2, {}) and f"error: {sentence}" in run.stderr


def test_verdicts() -> None:
    """On a Mac the wait for the GPU decides."""
    program = """
from torch.mps.check import profile
profile.is_simulated = lambda: False
def say(submitted, wall, **more):
    print(profile._verdict(profile.Profile({"submitted": submitted, "wall": wall}, profile.Operators(), **more)))
say(0.0041, 0.0043, replay={"submitted": 0.000205, "wall": 0.001})
say(0.0041, 0.0043, problem="it reads")
say(0.001, 0.0043, replay={"submitted": 0.0001, "wall": 0.0043})
"""
    run = simulated("-c", BEGIN + program)
    assert run.stdout.splitlines() == [
        "Submission takes 4.10 of 4.30 ms: the CPU is the limit, and a replay saves 95% of its time.",
        "Submission takes 4.10 of 4.30 ms: the CPU is the limit, and a capture raises. Change the step as the error says.",
        "Submission takes 1.00 of 4.30 ms: the GPU is the limit, and a replay gives the CPU free time at best.",
    ], run.stderr
