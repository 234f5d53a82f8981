"""The comparison of programs: each fault that it is there for is planted, and seen."""

from collections.abc import Callable
from typing import Any

import entry_points
import pytest
import state_changes
import thread_calls
import torch
from causes import names_a_cause
from program import Program, Step, Use
from search import FAMILIES, Hung, run_batch, Wrong
from state_program import CHANGES, ENTRIES, StateProgram, StateUse
from state_world import GraphStateWorld
from subjects import DEVICE
from verdict import check, EQUAL, RAISED, Verdict, WRONG
from world import GraphWorld, World

pytestmark = pytest.mark.filterwarnings("ignore")


def program(use: Use, *steps: str | tuple[str, int, int]) -> Program:
    return Program((use,), tuple(Step(*step) if isinstance(step, tuple) else Step(step, 0, 0) for step in steps))


CAPTURED = Use("stack", "captured", evaluates=True)
GRAPHED = Use("stack", "graphed")
# Each replay finds other inputs.
REPLAYS = program(CAPTURED, "forward", ("forward", 0, 1), "inputs", "forward")


class NoReplay(entry_points.Captured):
    def replay(self) -> None:
        pass


class TwoReplays(entry_points.Captured):
    def replay(self) -> None:
        super().replay()
        super().replay()


class Mixed(GraphWorld):
    """The results of one thread come from the input of another."""

    def threads(self, subject: Any, inputs: list[torch.Tensor]) -> Any:
        return super().threads(subject, inputs[::-1])


class Detached(GraphWorld):
    """What eager would differentiate needs no gradients."""

    def _keep_outputs(self, subject: Any, outputs: Any) -> Any:
        return super()._keep_outputs(subject, outputs.detach())


def changed(name: str, before: Callable[[Any], object] | None = None, after: Any = None) -> type[World]:
    """A world that does something wrong before or after one of its methods."""

    def method(world: Any, *words: Any) -> Any:
        if before:
            before(world)
        result = getattr(GraphWorld, name)(world, *words)
        if after:
            after(world)
        return result

    return type("Changed", (GraphWorld,), {name: method})


def change_results(world: Any) -> None:
    for result in world.results:
        result.tensors[0].data.add_(1)


def change_gradients(change: Callable[[torch.Tensor], torch.Tensor | None]) -> Callable[[Any], None]:
    def made(world: Any) -> None:
        for _, parameter in world.subjects[0].parameters():
            if parameter.grad is not None:
                parameter.grad = change(parameter.grad)

    return made


# What goes wrong, in which world, and the program that must show it.
FAULTS: dict[str, tuple[type[World], Program]] = {
    "no replays": (type("NoReplays", (GraphWorld,), {"make_block": NoReplay}), REPLAYS),
    "two replays": (
        type("TwoReplays", (GraphWorld,), {"make_block": TwoReplays}),
        program(Use("norm", "captured"), "forward", "forward"),
    ),
    "takes more random numbers than eager": (
        changed("do_forward", before=lambda _world: torch.rand(1, device=DEVICE)),
        program(GRAPHED, "forward"),
    ),
    "stale gradients": (
        changed("_backward", after=change_gradients(torch.zeros_like)),
        program(GRAPHED, "forward", "backward"),
    ),
    "no gradients": (
        changed("_backward", after=change_gradients(lambda _gradient: None)),
        program(GRAPHED, "forward", "backward"),
    ),
    "a later call writes to earlier results": (
        changed("do_forward", before=change_results),
        program(GRAPHED, "forward", "forward"),
    ),
    "a copy computes with the weights of the original": (
        changed("do_copy", after=lambda world: setattr(world.subjects[-1], "call", world.subjects[0].target)),
        program(Use("stack", "eager"), "copy", ("forward", 1, 0)),
    ),
    "mixed threads": (Mixed, program(Use("two_heads", "eager"), "threads")),
    "detached": (Detached, program(GRAPHED, "forward")),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_fault(fault: str) -> None:
    world, steps = FAULTS[fault]
    assert check(steps).outcome == EQUAL
    assert check(steps, world).outcome == WRONG


@pytest.mark.parametrize("loss", [("drop", 0, 0), ("derive", 0, 0), ("zero_grad", 0, 1)])
def test_looks_before_something_is_lost(loss: tuple[str, int, int]) -> None:
    """The last step takes away what is wrong."""

    def change(world: Any) -> None:
        change_results(world)
        change_gradients(lambda gradient: gradient + 1)(world)

    # the result has one element less to be wrong in, and its gradients are gone
    steps = program(GRAPHED, "forward", "backward", loss, ("zero_grad", 0, 1), "drop")
    assert check(steps).outcome == EQUAL
    assert check(steps, changed("do_backward", after=change)).outcome == WRONG


USES = program(GRAPHED, "forward", "use")
OVERWRITTEN = "A result of f was used after a later call, which has overwritten it: clone it"


def raising(message: str, leaves: Callable[[Any], object] = lambda _world: None) -> type[World]:
    def do_use(world: Any, step: Step) -> None:
        leaves(world)
        raise RuntimeError(message)

    return type("Raises", (GraphWorld,), {"do_use": do_use})


def test_errors() -> None:
    """One that names its cause is fine, unless it leaves results of earlier steps overwritten."""
    assert check(USES, raising(OVERWRITTEN)).outcome == RAISED
    assert check(USES, raising(OVERWRITTEN, change_results)).reason.startswith(
        "r0[0] differs after the error RuntimeError: A result of f"
    )
    for message in ("", "shape mismatch", "Expected all tensors to be on the same device"):
        assert check(USES, raising(message)).outcome == WRONG
    assert not names_a_cause(AttributeError(OVERWRITTEN))


# Eager raises, since the weight of the second layer was saved.
CHANGED = program(Use("stack", "eager"), "forward", ("update", 0, 4), "backward")


NO_ERROR = "eager raised, and this did not: RuntimeError: "


def test_eagers_error_must_be_raised() -> None:
    swallows = type("Swallows", (GraphWorld,), {"_backward": lambda *_: "swallowed"})
    assert check(CHANGED).outcome == RAISED
    verdict = check(CHANGED, swallows)
    assert verdict.outcome == WRONG and verdict.reason.startswith(NO_ERROR)


# State programs


def state_program(kind: str, entry: str, *changes: str) -> StateProgram:
    return StateProgram((StateUse(kind, entry),), tuple(Step(name, 0, 0) for name in changes))  # type: ignore[arg-type]


VALUE = state_program("linear", "graph", "value", "call", "call")
MOVED = "torch.mps graph replay: the Float tensor of shape [4, 4], recorded with a storage of 192 bytes, has none now"


def test_each_change_is_drawn() -> None:
    assert {f"change_{name}" for name in (*CHANGES, "call")} == {
        n for n in vars(state_changes) if n.startswith("change_")
    }


@pytest.mark.parametrize("entry", ENTRIES)
def test_state_that_a_replay_follows(entry: str) -> None:
    assert check(state_program("linear", entry, "value", "call", "input", "call")).outcome == EQUAL


def test_casts_of_a_trace_are_those_of_the_trace() -> None:
    assert check(state_program("sdpa", "compiled", "call", "inference", "autocast", "call")).outcome == EQUAL


class Stale(GraphStateWorld):
    def again(self) -> list[torch.Tensor]:
        return self.results[0].tensors


class OtherShape(GraphStateWorld):
    def again(self) -> list[torch.Tensor]:
        return [tensor.unsqueeze(0) for tensor in super().again()]


class Raising(GraphStateWorld):
    """Raises at each replay."""

    message = MOVED

    def again(self) -> list[torch.Tensor]:
        raise RuntimeError(self.message)


class Unexplained(Raising):
    message = "shape mismatch"


class StaleAfterwards(Raising):
    """What is captured after an error gives old results."""

    def first(self) -> list[torch.Tensor]:
        outputs = super().first()
        return [t + 1 for t in outputs] if self.outcome.raised else outputs


class Allows(GraphStateWorld):
    def refused(self, call: Any, options: dict[str, str]) -> None:
        super().refused(lambda: None, options)


EVENT = state_program("linear", "graph", "event")


@pytest.mark.parametrize(
    ("world", "steps"),
    [*((world, VALUE) for world in (Stale, OtherShape, Unexplained, StaleAfterwards)), (Allows, EVENT)],
)
def test_planted_fault_of_state(world: type[World], steps: StateProgram) -> None:
    assert check(steps, world).outcome == WRONG


def test_state_goes_on_after_an_error_with_a_cause() -> None:
    verdict = check(VALUE, Raising)
    assert (verdict.outcome, len(verdict.text)) == (RAISED, 4) and MOVED[:40] in verdict.reason


def test_eagers_error_of_state_must_be_raised() -> None:
    steps = state_program("host", "graph", "host_resize", "call")
    assert check(steps, Stale).reason.startswith(NO_ERROR)


def test_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    release = threading.Event()

    class Waits(GraphWorld):
        def threads(self, subject: Any, inputs: list[torch.Tensor]) -> Any:
            return thread_calls.call_from_threads(lambda x: x if release.wait() else x, inputs)

    monkeypatch.setattr(thread_calls, "TIMEOUT", 0.2)
    verdict = check(program(Use("two_heads", "eager"), "threads"), Waits)
    release.set()
    assert verdict.outcome == WRONG and verdict.is_hang


def planted(drawn: Program, is_hang: bool = False) -> Verdict:
    names = tuple(step.name for step in drawn.steps)
    is_wrong = names.count("forward") >= 2 and "backward" in names
    uses = tuple(f"as {use.entry}" for use in drawn.uses)
    return Verdict(WRONG if is_wrong else EQUAL, "planted", (*uses, *names), is_hang)


def test_a_wrong_program_is_shrunk() -> None:
    with pytest.raises(Wrong) as caught:
        run_batch(5, 0, FAMILIES["order of use"], planted)
    reason, *text = str(caught.value).split("\n    ")
    assert reason == "seed 5: planted" and sorted(text) == ["as eager", "backward", "forward", "forward"]


def test_programs_are_those_of_the_seed_and_the_batch() -> None:
    def drawn(run: int, batch: int, family: str) -> list[Program]:
        found: list[Program] = []
        run_batch(run, batch, FAMILIES[family], lambda one: found.append(one) or Verdict(EQUAL, "", ()))
        return found

    first = drawn(5, 1, "both")
    assert first == drawn(5, 1, "both") and first not in (drawn(6, 1, "both"), drawn(5, 2, "both"))
    assert {type(one) for one in first} == {Program, StateProgram}
    assert {type(one) for one in drawn(5, 1, "state")} == {StateProgram}


def test_a_hang_ends_the_batch() -> None:
    with pytest.raises(Hung, match="planted"):
        run_batch(5, 0, FAMILIES["order of use"], lambda one: planted(one, is_hang=True))
