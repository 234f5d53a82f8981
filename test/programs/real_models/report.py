"""build/reports/models.json: what a run has found, and what a later one keeps of it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from real_models.measure import Outcome, Row

# Rows by their keys.
Rows = dict[str, Row]


def write(path: Path, rows: Rows) -> None:
    """Keep all rows, and how many outcomes there are of each mode."""
    totals: dict[str, Counter[str]] = {}
    for row in rows.values():
        for mode, outcome in row.modes.items():
            totals.setdefault(mode, Counter())[outcome.outcome] += 1
    path.parent.mkdir(parents=True, exist_ok=True)
    found = {"totals": totals, "rows": [asdict(row) for row in rows.values()]}
    path.write_text(json.dumps(found, indent=1) + "\n")


def read(path: Path) -> Rows:
    """Those of an earlier run, or none."""
    if not path.exists():
        return {}
    rows = [
        Row(**{**values, "modes": {mode: Outcome(**outcome) for mode, outcome in values["modes"].items()}})
        for values in json.loads(path.read_text())["rows"]
    ]
    return {row.key: row for row in rows}
