"""What a report says of the machine: nothing that tells whose it is."""

import platform
import subprocess
import sys
from typing import Any

import torch


def _system_control(name: str) -> str:
    try:
        return subprocess.run(
            ["/usr/sbin/sysctl", "-n", name], capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def is_simulated() -> bool:
    """Say whether the device is the Metal simulator of the fork's tests."""
    return sys.platform != "darwin"


def describe() -> dict[str, Any]:
    """Return model, chip, memory in bytes, and the versions of macOS, Python and torch."""
    memory = _system_control("hw.memsize")
    return {
        "simulated": is_simulated(),
        "model": _system_control("hw.model"),
        "chip": _system_control("machdep.cpu.brand_string") or platform.machine(),
        "memory": int(memory) if memory.isdigit() else 0,
        "macos": platform.mac_ver()[0],
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def known_problems(facts: dict[str, Any]) -> list[str]:
    """Return the problems of eager that other people reported for this macOS and this chip, a sentence each."""
    problems = []
    version = tuple(int(part) for part in facts["macos"].split(".")[:2] if part.isdigit())
    if (15, 0) <= version <= (26, 3):
        problems.append("strided and expanded operands of a matrix product give wrong results (pytorch #180236)")
    if any(f"Apple {chip}" in facts["chip"] for chip in ("M1", "M2")):
        problems.append("a matrix product over 32,767 or more elements reads past its operands (pytorch #195163)")
    return problems


def backend() -> dict[str, Any]:
    """Return which MPS backend has the device: its name, and why if it is not the patched one."""
    try:
        from torch import _mps_graph_loader as loader  # type: ignore[attr-defined]
    except ImportError:
        patched = hasattr(torch.mps, "graph_capture")
        reason = "" if patched else "this torch was built without graph capture"
        return {"patched": patched, "how": "part of torch", "reason": reason}
    reason = loader.reason() or loader.trouble() or ""
    return {"patched": loader.in_charge(), "how": "taken over from the official backend", "reason": reason}
