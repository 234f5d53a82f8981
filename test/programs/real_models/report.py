"""build/reports/models.json: what a run has found, and what a later one keeps of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from real_models.generation import Case, Decoded
from real_models.measure import Outcome, Row


@dataclass
class Report:
    """Rows of models and of `generate()`, by what they are of."""

    models: dict[tuple[str, str], Row] = field(default_factory=dict)
    generation: dict[Case, Decoded] = field(default_factory=dict)

    def failures(self) -> list[str]:
        """What a run must not have."""
        return [failure for row in self.rows() for failure in row.failures()]

    def equal(self) -> list[str]:
        """What a run without replays must not have."""
        return [equal for row in self.rows() for equal in row.equal()]

    def rows(self) -> Iterator[Row | Decoded]:
        """All of them."""
        yield from self.models.values()
        yield from self.generation.values()

    def write(self, path: Path, kept: Report) -> None:
        """With what an earlier run has found, and this one does not have yet."""
        models = {**kept.models, **self.models}
        generation = {**kept.generation, **self.generation}
        totals: dict[str, dict[str, int]] = {}

        def count(mode: str, outcome: Outcome) -> None:
            counts = totals.setdefault(mode, {})
            counts[outcome.outcome] = counts.get(outcome.outcome, 0) + 1

        for row in models.values():
            for mode, outcome in row.modes.items():
                count(mode, outcome)
        for decoded in generation.values():
            for choice, outcome in decoded.outcomes.items():
                count(f"generate, {choice}", outcome)
        found = {
            "totals": totals,
            "models": [row.as_json() for row in models.values()],
            "generation": [decoded.as_json() for decoded in generation.values()],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found, indent=1) + "\n")

    def passed(self) -> Report:
        """What did not fail."""
        return Report(
            {key: row for key, row in self.models.items() if not row.failures()},
            {case: decoded for case, decoded in self.generation.items() if not decoded.failures()},
        )

    @staticmethod
    def read(path: Path) -> Report:
        """Of an earlier run, or nothing."""
        if not path.exists():
            return Report()
        found = json.loads(path.read_text())
        models = [Row.of_json(values) for values in found["models"]]
        generation = [Decoded.of_json(values) for values in found["generation"]]
        return Report({(row.name, row.dtype): row for row in models}, {decoded.case: decoded for decoded in generation})
