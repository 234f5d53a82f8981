"""A process of the run: checks programs, and prints a JSON line for each, and for each that it has shrunk."""

import json
import re
import sys
import warnings
from typing import Any

from program import Program
from search import BATCH, run_batch, shrink
from state_program import StateProgram
from verdict import check, RAISED, Verdict, WRONG

# Wrong programs that a process shrinks, one of a batch: many of them may have one cause.
_MOST_SHRUNK = 5


def say(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def say_failure(number: int, verdict: Verdict) -> None:
    say(program=number, reason=verdict.reason, steps=list(verdict.text), pattern=[verdict.kind, *verdict.tokens])


def main(order: dict[str, Any]) -> None:
    """Checks the programs from the order's first to its last."""
    first, last, family = order["first"], order["last"], order["family"]
    left = _MOST_SHRUNK if order["shrink"] else 0
    for batch in range(first // BATCH, -(-last // BATCH)):
        start = batch * BATCH
        wrong: list[tuple[int, Verdict]] = []

        def see(number: int, program: Program, verdict: Verdict, start: int = start, wrong: list[Any] = wrong) -> None:
            groups = {("family", "state" if isinstance(program, StateProgram) else "order of use")}
            groups |= {("entry_point", use.entry) for use in program.uses}
            groups |= {("kind", token.split(":")[0]) for token in verdict.tokens if not token.startswith("set_up")}
            error = re.sub(r"\d+", "N", verdict.reason)[:100] if verdict.outcome == RAISED else ""
            say(program=start + number, outcome=verdict.outcome, groups=sorted(groups), error=error)
            if verdict.outcome == WRONG:
                wrong.append((number, verdict))
                if verdict.is_hang:
                    say_failure(start + number, verdict)
                    sys.exit(1)  # the threads still hold what other programs would need

        count = min(BATCH, last - start)
        run_batch(order["seed"], batch, count, check, see, max(0, first - start), family)
        for number, verdict in wrong[:1] if left else ():
            left -= 1
            found = shrink(order["seed"], batch, count, number, check, family)
            say_failure(start + number, found[1] if found else verdict)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(json.load(sys.stdin))
