"""The outcomes of the mutants, as lines and as a report."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from fork_tool.common.files import write_atomically

CAUGHT, SURVIVED = "caught", "survived"
# A mutant that could not be tried: it says nothing of the tests, and does not count as noticed.
DOES_NOT_APPLY, DOES_NOT_BUILD = "does not apply", "does not build"
RED_WITHOUT, TIMED_OUT, NOT_RUN = "suite fails without it", "timed out", "suite does not run"
OUTCOMES = (CAUGHT, SURVIVED, DOES_NOT_APPLY, DOES_NOT_BUILD, RED_WITHOUT, TIMED_OUT, NOT_RUN)


@dataclass
class Verdict:
    name: str
    fault: str
    files: list[str]
    # Of the mutant and of all that was run: what is the same needs no second run.
    sources: str
    outcome: str = ""
    # The suite and the test that noticed.
    suite: str = ""
    test: str = ""
    # Why there is no answer.
    reason: str = ""
    # Suites that were run and did not notice.
    unnoticed: list[str] = field(default_factory=list)
    build_seconds: float = 0.0
    seconds: float = 0.0

    @property
    def caught_by(self) -> str:
        return f"{self.suite}: {self.test}" if self.suite else ""

    @property
    def good(self) -> bool:
        return self.outcome == CAUGHT

    def sentence(self) -> str:
        """For people, after the name."""
        if self.good:
            return f"caught by {self.caught_by}"
        if self.outcome == SURVIVED:
            return f"SURVIVED {', '.join(self.unnoticed)}"
        return f"{self.outcome}: {self.reason}"


def totals(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """How many came out how, by outcome, the words joined by underscores."""
    found = [verdict.outcome for verdict in verdicts]
    return {outcome.replace(" ", "_"): found.count(outcome) for outcome in OUTCOMES}


def write_report(path: Path, verdicts: Sequence[Verdict], machine: str, complete: bool) -> None:
    """Write all that is known; `complete`: each mutant that there is was run."""
    report = {
        "complete": complete,
        "machine": machine,
        "totals": totals(verdicts),
        "mutants": [asdict(verdict) | {"caught_by": verdict.caught_by} for verdict in verdicts],
    }
    write_atomically(path, (json.dumps(report, indent=1) + "\n").encode())


def read_report(path: Path) -> dict[str, Verdict]:
    """The verdicts of an earlier run by name; none when there is no report that can be read."""
    try:
        rows = json.loads(path.read_text("utf-8"))["mutants"]
        for row in rows:
            row.pop("caught_by")
        return {row["name"]: Verdict(**row) for row in rows}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
