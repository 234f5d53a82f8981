"""Draws programs with hypothesis, checks them, and lets it shrink a wrong one."""

from collections import Counter
from collections.abc import Callable

from hypothesis import given, HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import engine
from program import Program, programs
from state_program import state_programs
from verdict import check, Verdict, WRONG

# What is drawn for one seed.
BATCH = 50
# Programs are to be independent of each other, not variations of the one before.
engine.ConjectureRunner.generate_mutations_from = lambda self, data: None  # type: ignore[method-assign]
engine.MAX_SHRINKING_SECONDS = 20

# What is drawn: both families, or one of them.
FAMILIES = {
    "both": st.booleans().flatmap(lambda of_state: state_programs if of_state else programs),
    "order of use": programs,
    "state": state_programs,
}


class Wrong(AssertionError):
    """A program does not do what it does eagerly."""


class Hung(BaseException):
    """Threads of a program hang: hypothesis lets it pass, and shrinks nothing."""


def run_batch(
    run: int, batch: int, family: st.SearchStrategy[Program], check: Callable[[Program], Verdict] = check
) -> Counter[str]:
    """Checks the programs of a batch of a run's seed, and counts the verdicts; raises with the smallest wrong program."""
    outcomes: Counter[str] = Counter()

    @settings(
        max_examples=BATCH,
        database=None,
        deadline=None,
        derandomize=False,
        phases=(Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )
    @seed(run * 1_000_003 + batch)
    @given(family)
    def checked(program: Program) -> None:
        verdict = check(program)
        outcomes[verdict.outcome] += 1
        if verdict.outcome == WRONG:
            raise (Hung if verdict.is_hang else Wrong)("\n    ".join([f"seed {run}: {verdict.reason}", *verdict.text]))

    checked()
    return outcomes
