"""What an operator's rows come to."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from fallback_bench.rows import Row
from fallback_bench.targets import Target


@dataclass(frozen=True)
class Summary:
    """A target and its rows."""

    target: Target
    rows: tuple[Row, ...]

    @property
    def operator(self) -> str:
        return self.target.operator

    @property
    def penalties(self) -> list[float]:
        """The factors of the rows that fell back."""
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
        """The operators that ran on the CPU."""
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
