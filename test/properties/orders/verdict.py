"""Performs a program eagerly and through its entry points, and says whether they agree."""

import gc
import re
from collections.abc import Callable
from dataclasses import dataclass

import entry_points
from causes import names_a_cause
from program import Program
from state_program import StateProgram
from state_world import GraphStateWorld, StateWorld, TracedStateWorld
from thread_calls import Hang
from world import GraphWorld, Outcome, ReferenceWorld, Seen, World

EQUAL, RAISED, WRONG = "equal", "raised", "wrong"
_COLLECT_EVERY = 25
_MOST_CHARACTERS = 150  # of a message, in the report
_checked = 0
# Of each family of programs: eager, traced, and through graphs.
_WORLDS: dict[type[Program], tuple[type[World], type[World], type[World]]] = {
    Program: (World, ReferenceWorld, GraphWorld),
    StateProgram: (StateWorld, TracedStateWorld, GraphStateWorld),
}


@dataclass(frozen=True)
class Verdict:
    """What became of a program, and what its steps were."""

    outcome: str
    reason: str
    text: tuple[str, ...]
    is_hang: bool = False


def _perform(world: World, program: Program) -> Outcome:
    try:
        return world.perform(program)
    finally:
        world.close()
        entry_points.let_go()


def _collect() -> None:
    """Between programs. What tracing made stays, and need not be looked at again."""
    global _checked
    _checked += 1
    if _checked % _COLLECT_EVERY == 0:
        gc.collect()
        gc.freeze()


def _first_line(error: BaseException | None) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:_MOST_CHARACTERS]


def _difference(before: Seen, now: Seen) -> str:
    """The first thing that was seen to differ, or nothing."""
    for name, value in now.values.items():
        if name not in before.values:
            return f"{name} is not there in eager"
        if value != before.values[name]:
            return f"{name} differs"
    missing = before.values.keys() - now.values.keys() - now.refused
    if missing:
        return f"{min(missing)} is missing"
    return "" if before.generator == now.generator else "the generator's state differs"


def compare(expected: Outcome, actual: Outcome) -> tuple[str, str]:
    """The verdict and the reason."""
    error, wanted = actual.error, expected.error
    # what is there after an error depends on how far a step came
    count = len(expected.snapshots) - (wanted is not None), len(actual.snapshots) - (error is not None)
    for before, now in zip(expected.snapshots[: count[0]], actual.snapshots[: count[1]]):
        difference = _difference(before, now)
        if difference:
            return WRONG, difference
    if error is not None:
        if wanted is not None and expected.failed_at == actual.failed_at:
            return RAISED, _first_line(error)
        if names_a_cause(error):
            return RAISED, _first_line(error)
        if wanted is not None and expected.failed_at < actual.failed_at:
            return WRONG, f"eager raised, and this did not: {_first_line(wanted)}"
        return WRONG, f"unexpected {_first_line(error)}"
    if wanted is not None:
        return WRONG, f"eager raised, and this did not: {_first_line(wanted)}"
    return (RAISED, actual.raised.splitlines()[0][:_MOST_CHARACTERS]) if actual.raised else (EQUAL, "")


def compare_until_error(expected: Outcome, actual: Outcome) -> tuple[str, str]:
    """Whether a step that raised left the results of earlier steps as they were; eager ran the steps before it."""
    if expected.error is not None or isinstance(actual.error, Hang):
        return EQUAL, ""
    before, now = expected.snapshots[-1].values, actual.snapshots[-1].values
    # a gradient changes if the step came as far as a backward pass
    results = [name for name in now if "[" in name and not name.startswith("g") and name in before]
    for name in results:
        if now[name] != before[name]:
            return WRONG, f"{name} differs after the error {_first_line(actual.error)}"
    return EQUAL, ""


def _uses(program: Program, steps: str) -> list[str]:
    """Those that the steps name, and those whose pool they share."""
    if isinstance(program, StateProgram):
        return [str(program.uses[0])]
    shared = {i for i, use in enumerate(program.uses) if use.entry == "graphed together"}
    named = {i for i in range(len(program.uses)) if re.search(rf"\bm{i}\b", steps)}
    named |= shared if named & shared else set()
    return [f"m{i} = {use}" for i, use in enumerate(program.uses) if i in named]


def _judge(eager: Callable[[], World], program: Program, actual: Outcome) -> tuple[tuple[str, str], Outcome]:
    expected = _perform(eager(), program)
    result = compare(expected, actual)
    if result[0] == RAISED and expected.failed_at != actual.failed_at:
        until = _perform(eager(), program._replace(steps=program.steps[: actual.failed_at]))
        after = compare_until_error(until, actual)
        result = after if after[0] == WRONG else result
    return result, expected


def check(program: Program, graph_world: Callable[[], World] | None = None) -> Verdict:
    """Compares a program with eager and, where that differs and something is compiled, with AOTAutograd's trace."""
    _collect()
    eager, traced_world, graphs = _WORLDS[type(program)]
    actual = _perform((graph_world or graphs)(), program)
    (outcome, reason), expected = _judge(eager, program, actual)
    is_hang = isinstance(actual.error, Hang)
    if outcome == WRONG and not is_hang and any(use.entry.startswith("compiled") for use in program.uses):
        traced, by_trace = _judge(traced_world, program, actual)
        # an assertion of AOTAutograd says nothing about the program, unless both fail so
        if isinstance(actual.error, AssertionError) or not isinstance(by_trace.error, AssertionError):
            (outcome, reason), expected = traced, by_trace
    last = actual.failed_at if actual.error else expected.failed_at if expected.error else len(program.steps)
    steps = [text for number, text in sorted((actual.done | expected.done).items()) if number <= last]
    text = [*_uses(program, " ".join(steps)), *steps]
    return Verdict(outcome, reason, tuple(text), is_hang)
