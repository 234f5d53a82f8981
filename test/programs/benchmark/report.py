"""Keeps the rows of a run as JSON."""

import datetime
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from benchmark.devices import Device
from benchmark.measure import ModeRow, Row
from benchmark.protocol import TRIALS, TRIMMED, WARM_UPS

HERE = Path(__file__).parent


def heading(device: Device) -> str:
    """Says what the numbers are, and what they are not."""
    if not device.simulated:
        return (
            "Seconds of a pass on an idle device: of the thread that submits it until the call returned (CPU), and until the "
            "device was done (wall)."
        )
    return (
        "SIMULATED: the simulator replaces Metal and MPSGraph. Values are computed and compared. Times are CPU time of the "
        "submitting thread for PyTorch's MPS backend and the simulator's encoding, in null mode (encoded, not executed) "
        "without validation. They include no GPU time and none of Apple's encoding."
    )


def write(
    path: Path, rows: Sequence[Row], device: Device, trials: int = TRIALS, goals: Sequence[dict[str, Any]] = ()
) -> None:
    """Keep the report; a reader never sees half of it."""
    report = {
        "simulated": device.simulated,
        "device": device.machine(),
        "torch": torch.__version__,
        "date": datetime.date.today().isoformat(),
        # how busy the machine was at last, and its cores: others' work makes all times longer
        "load_average": round(os.getloadavg()[0], 1),
        "cores": os.cpu_count(),
        "about": heading(device),
        "protocol": {"trials": trials, "warm_ups": WARM_UPS, "trimmed": TRIMMED, "interleaved": True},
        "goals": list(goals),
    }
    configs = (_filled(row) | {"modes": {name: _filled(mode) for name, mode in row.modes.items()}} for row in rows)
    # Each configuration on a line.
    text = "".join(f" {json.dumps(name)}: {json.dumps(value)},\n" for name, value in report.items())
    lines = ",\n".join(f"  {json.dumps(one)}" for one in configs)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(f'{{\n{text} "configs": [\n{lines}\n ]\n}}\n')
    part.replace(path)


def _filled(one: Row | ModeRow) -> dict[str, Any]:
    """The fields of a row that say something."""
    return {name: value for name, value in asdict(one).items() if value not in (None, "", {})}


def rows_of(configs: Sequence[dict[str, Any]]) -> list[Row]:
    """The rows of a report's `configs`."""
    return [Row(**(one | {"modes": {name: ModeRow(**mode) for name, mode in one["modes"].items()}})) for one in configs]


def shown(goal: dict[str, Any]) -> str:
    """The measured value and what to say beside it."""
    if goal["value"] is None:
        return f"not measured: {goal['detail']}"
    number = f"{goal['value']:,.0f}" if goal["value"] >= 1_000 else f"{goal['value']:.5g}"
    return f"{number} ({goal['detail']})" if goal["detail"] else number


def verdict(goal: dict[str, Any]) -> str:
    """Whether the goal is met."""
    return {True: "met", False: "**missed**", None: "–"}[goal["met"]]
