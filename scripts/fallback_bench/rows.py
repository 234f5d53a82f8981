"""One measurement, which is a row of its operator's CSV file, and what an operator's rows come to."""

import csv
import io
import statistics
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from fallback_bench.targets import Target
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
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Row)], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        values = asdict(row).items()
        writer.writerow({name: f"{value:.6g}" if isinstance(value, float) else value for name, value in values})
    path = directory / f"{rows[0].operator.removeprefix('aten::')}.csv"
    write_atomically(path, text.getvalue().encode())
    return path


@dataclass(frozen=True)
class Summary:
    target: Target
    rows: tuple[Row, ...]

    @property
    def operator(self) -> str:
        return self.target.operator

    @property
    def penalties(self) -> list[float]:
        return [row.penalty for row in self.rows if row.falls_back and row.penalty]

    @property
    def penalty(self) -> float | None:
        """Their geometric mean, since they are factors."""
        return statistics.geometric_mean(self.penalties) if self.penalties else None

    @property
    def overhead_ms(self) -> float | None:
        """The median of what a call costs more than on the CPU."""
        values = [row.overhead_ms for row in self.rows if row.falls_back and row.overhead_ms is not None]
        return statistics.median(values) if values else None

    @property
    def pain(self) -> float:
        """Demand times cost: what the ranking goes by."""
        return self.target.votes * (self.penalty or 0.0)

    @property
    def falls_back(self) -> bool:
        return any(row.falls_back for row in self.rows)

    @property
    def native(self) -> bool:
        return bool(self.rows) and all(row.verdict == "native" for row in self.rows)

    @property
    def fell_back(self) -> list[str]:
        return sorted({name for row in self.rows for name in row.fell_back.split()})

    @property
    def stops_capture(self) -> str:
        """`yes` when any row does."""
        seen = {row.stops_capture for row in self.rows}
        return next((word for word in ("yes", "unknown", "no") if word in seen), "")

    @property
    def capture_errors(self) -> list[str]:
        return sorted({row.capture_error for row in self.rows if row.stops_capture == "yes"})

    @property
    def problems(self) -> list[str]:
        return sorted({row.problem for row in self.rows if row.problem})


def summarize(targets: list[Target], rows: list[Row]) -> list[Summary]:
    """One for each target that has rows, most painful first."""
    summaries = [Summary(target, tuple(row for row in rows if row.operator == target.operator)) for target in targets]
    return sorted((one for one in summaries if one.rows), key=lambda one: (-one.pain, -one.target.votes, one.operator))
