"""One measurement: a row of the operator's CSV file."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from fork_tool.common.files import write_atomically

NOISY = 0.5


@dataclass(frozen=True)
class Row:
    """An operator with one shape and dtype; what could not be measured is empty, and `problem` says why."""

    operator: str
    dtype: str
    shape: str
    verdict: str = ""
    fell_back: str = ""
    cpu_ms: float | None = None
    mps_ms: float | None = None
    penalty: float | None = None
    overhead_ms: float | None = None
    repeats: int | None = None
    spread: float | None = None
    stops_capture: str = ""
    capture_error: str = ""
    problem: str = ""
    where: str = ""
    torch: str = ""

    @property
    def noisy(self) -> bool:
        """Whether half of the times lay so far apart that the medians say little."""
        return self.spread is not None and self.spread > NOISY

    @property
    def falls_back(self) -> bool:
        return self.verdict.startswith("falls back")


def timed(cpu: float, mps: float) -> dict[str, float]:
    """The columns that two times in seconds give: the penalty is a factor, the overhead a difference."""
    return {
        "cpu_ms": cpu * 1e3,
        "mps_ms": mps * 1e3,
        "penalty": mps / cpu if cpu else 0.0,
        "overhead_ms": (mps - cpu) * 1e3,
    }


def write_csv(directory: Path, rows: list[Row]) -> Path:
    """Write the rows of one operator."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Row)], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _shown(value) for name, value in asdict(row).items()})
    path = directory / f"{rows[0].operator.removeprefix('aten::')}.csv"
    write_atomically(path, text.getvalue().encode())
    return path


def _shown(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value
