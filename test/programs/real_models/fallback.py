"""Models with operators that have no MPS kernel: in a process of their own, since the fallback is for a whole process."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from real_models.measure import Row
from real_models.report import Report

_VARIABLE = "PYTORCH_ENABLE_MPS_FALLBACK"


def has_fallback() -> bool:
    """Whether operators without a kernel run on the CPU in this process."""
    return os.environ.get(_VARIABLE) == "1"


def rows_with_fallback(program: Path, name: str, no_replay: bool) -> list[Row]:
    """What a run of one model finds where they do."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "models.json"
        command = [sys.executable, "-m", "mps_simulator", str(program), "--only", name, "--report", str(report)]
        if no_replay:
            command.append("--no-replay")
        # its status says whether there were failures, which are looked for in the rows
        ended = subprocess.run(
            command, env={**os.environ, _VARIABLE: "1"}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        rows = list(Report.read(report).models.values())
        if ended.returncode not in (0, 1) or not rows:
            # it crashed: rows that are there would hide the others
            raise RuntimeError(f"the run of {name} with {_VARIABLE}=1 ended with {ended.returncode}: {ended.stderr}")
        return rows
