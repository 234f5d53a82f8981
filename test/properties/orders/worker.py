"""A process of the run: takes batches from its input, one JSON line each, and prints what became of the programs."""

from __future__ import annotations

import json
import re
import resource
import sys
import warnings
from typing import Any

from program import Program
from search import pattern, run_batch, shrink, unlike
from state_program import StateProgram
from verdict import check, RAISED, Verdict, WRONG

# What looks like a known wrong program may have another cause: every so many are shrunk nevertheless.
_EVERY = 5
# Traces stay for a process's life: another one takes over before they are too many.
_MOST_KILOBYTES = 3_000_000


def say(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def describe(verdict: Verdict) -> dict[str, Any]:
    """A verdict as the report has it."""
    return {
        "reason": verdict.reason,
        "kind": verdict.kind,
        "steps": list(verdict.text),
        "pattern": [verdict.kind, *pattern(verdict)],
    }


class Batch:
    """The programs of one seed: checks them, counts them, and shrinks what is wrong and not known."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self.known: list[tuple[str, ...]] = [tuple(steps) for steps in order["known"]]
        self.wrong: list[tuple[int, Verdict]] = []

    def see(self, number: int, program: Program, verdict: Verdict) -> None:
        entries = sorted({use.entry for use in program.uses})
        kinds = sorted({token.split(":")[0] for token in verdict.tokens} - {"set_up"})
        error = re.sub(r"\d+", "N", verdict.reason)[:100] if verdict.outcome == RAISED else ""
        family = "state" if isinstance(program, StateProgram) else "order of use"
        say(done=number, family=family, outcome=verdict.outcome, entries=entries, kinds=kinds, error=error)
        if verdict.outcome == WRONG:
            self.wrong.append((number, verdict))
            if verdict.is_hang:
                say(failure=number, **describe(verdict))
                sys.exit(1)  # the threads still hold what other programs would need

    def tell(self, program: Program) -> None:
        """Describes a program that ended a process."""
        uses = [f"m{i} = {use}" for i, use in enumerate(program.uses)]
        reason = f"the process ended with status {self.order['crashed']}"
        steps = [*uses, *(f"{step.name}({step.a}, {step.b})" for step in program.steps)]
        number = self.order["first"] - 1
        say(
            failure=number,
            reason=reason,
            kind="crash",
            steps=steps,
            pattern=[f"crash of {self.order['seed']} {number}"],
        )

    def run(self) -> None:
        seed, count, family = self.order["seed"], self.order["count"], self.order["family"]
        tell = self.tell if self.order["crashed"] else None
        run_batch(seed, count, check, self.see, self.order["first"], tell, family)
        for number, verdict in self.wrong:
            if self.order["shrink"] and (number % _EVERY == 0 or unlike(self.known, verdict)):
                found = shrink(seed, count, number, check, family)
                smallest = found[1] if found else verdict
                self.known.append((smallest.kind, *pattern(smallest)))
                say(failure=number, shrunk=found is not None, **describe(smallest))


def main() -> None:
    """Works until there is no input."""
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        Batch(json.loads(line)).run()
        is_large = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > _MOST_KILOBYTES
        say(end=True, last=is_large)
        if is_large:
            break


if __name__ == "__main__":
    main()
