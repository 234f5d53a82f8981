"""Draws programs with hypothesis, checks them, and shrinks those that are wrong."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import given, HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture.engine import ConjectureRunner
from program import Program, programs
from state_program import state_programs
from verdict import Verdict, WRONG

# What is drawn for one seed. Programs have the same numbers whatever the number of processes.
BATCH = 50
# Of the processor, for one wrong program.
SHRINKING_SECONDS = 20.0

# Programs are to be independent of each other, not variations of the one before.
ConjectureRunner.generate_mutations_from = lambda self, data: None  # type: ignore[method-assign]

# What is drawn: both families, or one of them.
FAMILIES = {
    "both": st.booleans().flatmap(lambda of_state: state_programs if of_state else programs),
    "order of use": programs,
    "state": state_programs,
}
Check = Callable[[Program], Verdict]


def _draw(run: int, batch: int, count: int, family: str, body: Callable[[Program], None], *phases: Phase) -> None:
    """Calls the body with each program of a batch of a run's seed."""
    options = settings(
        max_examples=count,
        database=None,
        deadline=None,
        derandomize=False,
        phases=phases,
        report_multiple_bugs=False,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )
    options(seed(run * 1_000_003 + batch)(given(FAMILIES[family])(lambda program: body(program))))()


def run_batch(
    run: int,
    batch: int,
    count: int,
    check: Check,
    see: Callable[[int, Program, Verdict], None],
    first: int = 0,
    family: str = "both",
) -> None:
    """Checks the programs of a batch from the first one on; `see` gets each with its number."""
    number = 0

    def body(program: Program) -> None:
        nonlocal number
        if number >= first:
            see(number, program, check(program))
        number += 1

    _draw(run, batch, count, family, body, Phase.generate)


class _Wrong(Exception):
    pass


@dataclass
class _Shrinker:
    """Lets hypothesis draw a batch again up to the wrong program, and shrink that."""

    number: int
    check: Check
    deadline: float
    drawn: int = 0
    found: tuple[Program, Verdict] | None = None
    known: dict[Program, bool] = field(default_factory=dict)

    def body(self, program: Program) -> None:
        self.drawn += 1
        if self.drawn <= self.number:
            return
        if program not in self.known:
            self.known[program] = time.process_time() < self.deadline and self._is_wrong(program)
        if self.known[program]:
            raise _Wrong

    def _is_wrong(self, program: Program) -> bool:
        verdict = self.check(program)
        if verdict.outcome != WRONG:
            return False
        if self.found is None or len(verdict.text) <= len(self.found[1].text):
            self.found = program, verdict
        return True


def shrink(
    run: int, batch: int, count: int, number: int, check: Check, family: str = "both"
) -> tuple[Program, Verdict] | None:
    """The smallest wrong program found from that with this number; None if it is not wrong again."""
    shrinker = _Shrinker(number, check, time.process_time() + SHRINKING_SECONDS)
    try:
        _draw(run, batch, count, family, shrinker.body, Phase.generate, Phase.shrink)
    except _Wrong:
        pass
    return shrinker.found
