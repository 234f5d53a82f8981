"""What build/reports/state.json says of a run."""

import json
import os
import platform
import sys
from collections import Counter
from pathlib import Path
from typing import Any

VERDICTS = ("equal", "raised", "wrong")
GROUPS = ("family", "entry_point", "kind")


class Report:
    """Counts verdicts, and collects the smallest wrong programs."""

    def __init__(self, seed: int, processes: int) -> None:
        self.seed, self.processes = seed, processes
        # by group and name, in all and by the families, entry points and kinds of step of each program
        self.counts: dict[tuple[str, str], Counter[str]] = {("all", ""): Counter()}
        self.errors: Counter[str] = Counter()
        self.failures: list[dict[str, Any]] = []

    def count(self, line: dict[str, Any]) -> None:
        """Counts a program, once for each of its groups."""
        for group, name in [("all", ""), *line["groups"]]:
            self.counts.setdefault((group, name), Counter())[line["outcome"]] += 1
        if line["error"]:
            self.errors[line["error"]] += 1

    def add_failure(self, failure: dict[str, Any]) -> bool:
        """Adds a smallest program that is not there yet."""
        if any(known["pattern"] == failure["pattern"] for known in self.failures):
            return False
        self.failures.append(failure)
        return True

    def totals(self, group: str = "all", name: str = "") -> dict[str, int]:
        return {outcome: self.counts[group, name][outcome] for outcome in VERDICTS}

    def so_far(self) -> str:
        counts = ", ".join(f"{number} {name}" for name, number in self.totals().items())
        return f"{sum(self.totals().values())} programs: {counts}; {len(self.failures)} smallest programs"

    def write(self, path: Path, seconds: float) -> None:
        """Writes the file, a line per smallest program."""
        facts: dict[str, Any] = {
            "programs": sum(self.totals().values()),
            "totals": self.totals(),
            "seed": self.seed,
            "seconds": round(seconds, 1),
            "processes": self.processes,
            "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
            "simulated": sys.platform != "darwin",
        }
        for group in GROUPS:
            names = sorted(name for of, name in self.counts if of == group)
            facts[f"by_{group}"] = {name: self.totals(group, name) for name in names}
        facts["errors"] = dict(self.errors.most_common())
        failures = ",\n".join(json.dumps(f) for f in sorted(self.failures, key=lambda f: f["program"]))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(facts, indent=1)[:-2] + f',\n "failures": [\n{failures}\n]\n}}\n')
