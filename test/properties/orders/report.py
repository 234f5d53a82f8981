"""What build/reports/state.json says of a run."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections import Counter
from pathlib import Path
from typing import Any

VERDICTS = ("equal", "raised", "wrong")


class Report:
    """Counts verdicts, and collects the smallest wrong programs."""

    def __init__(self, seed: int, processes: int) -> None:
        self.seed, self.processes = seed, processes
        self.totals: Counter[str] = Counter()
        self.by_family: dict[str, Counter[str]] = {}
        self.by_entry_point: dict[str, Counter[str]] = {}
        self.by_kind: dict[str, Counter[str]] = {}
        self.errors: Counter[str] = Counter()
        self.failures: list[dict[str, Any]] = []

    def count(self, line: dict[str, Any]) -> None:
        """Counts a program: once for each entry point it uses and for each kind of step it contains."""
        outcome = line["outcome"]
        self.totals[outcome] += 1
        if line["error"]:
            self.errors[line["error"]] += 1
        self.by_family.setdefault(line["family"], Counter())[outcome] += 1
        for name in line["entries"]:
            self.by_entry_point.setdefault(name, Counter())[outcome] += 1
        for name in line["kinds"]:
            self.by_kind.setdefault(name, Counter())[outcome] += 1

    def add_failure(self, failure: dict[str, Any]) -> bool:
        """Adds a smallest program that is not there yet."""
        if any(known["pattern"] == failure["pattern"] for known in self.failures):
            return False
        self.failures.append(failure)
        return True

    def so_far(self) -> str:
        counts = ", ".join(f"{self.totals[name]} {name}" for name in VERDICTS)
        return f"{self.totals.total()} programs: {counts}; {len(self.failures)} smallest programs"

    def write(self, path: Path, seconds: float) -> None:
        """Writes the file, a line per smallest program."""
        facts = {
            "programs": self.totals.total(),
            "totals": {name: self.totals[name] for name in VERDICTS},
            "seed": self.seed,
            "seconds": round(seconds, 1),
            "processes": self.processes,
            "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
            "simulated": sys.platform != "darwin",
            "by_family": _table(self.by_family),
            "by_entry_point": _table(self.by_entry_point),
            "by_kind": _table(self.by_kind),
            "errors": dict(self.errors.most_common()),
        }
        failures = ",\n".join(json.dumps(f) for f in sorted(self.failures, key=lambda f: f["program"]))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(facts, indent=1)[:-2] + f',\n "failures": [\n{failures}\n]\n}}\n')


def _table(counts: dict[str, Counter[str]]) -> dict[str, dict[str, int]]:
    return {name: {outcome: count[outcome] for outcome in VERDICTS} for name, count in sorted(counts.items())}
