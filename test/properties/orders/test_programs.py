"""A sample of random programs does through entry points what it does eagerly."""

import random
import warnings

from program import Program
from search import BATCH, run_batch, shrink
from verdict import check, EQUAL, Verdict, WRONG

PROGRAMS = 300


def test_sample() -> None:
    seed = random.SystemRandom().randrange(1 << 31)
    wrong: list[tuple[int, int, Verdict]] = []
    outcomes = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for batch in range(PROGRAMS // BATCH):

            def see(number: int, _program: Program, verdict: Verdict, batch: int = batch) -> None:
                outcomes.append(verdict.outcome)
                if verdict.outcome == WRONG:
                    wrong.append((batch, number, verdict))

            run_batch(seed, batch, BATCH, check, see)
        assert len(outcomes) == PROGRAMS and EQUAL in outcomes
        if wrong:
            batch, number, verdict = wrong[0]
            found = shrink(seed, batch, BATCH, number, check)
            smallest = found[1] if found else verdict
            steps = "\n    ".join(smallest.text)
            raise AssertionError(
                f"{len(wrong)} of {PROGRAMS} programs are wrong (scripts/mpsfork state --seed {seed} --programs {PROGRAMS}).\n"
                f"Program {batch * BATCH + number}: {smallest.reason}\n    {steps}"
            )
