"""`build/reports/wheel.json`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from fork_tool.common.files import write_atomically


@dataclass(frozen=True)
class Report:
    """What was made. Sizes are in bytes; `undefined` counts the names that the library takes, by who has them."""

    path: str
    bytes: int
    official_bytes: int
    seconds: float
    # Where the backend's Metal kernels come from.
    kernels: str
    undefined: dict[str, int]
    # Empty for a wheel without a fault.
    findings: list[str]


def write_report(path: Path, report: Report) -> None:
    """Write the report as JSON."""
    write_atomically(path, (json.dumps(asdict(report), indent=2) + "\n").encode())
