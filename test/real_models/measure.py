"""Runs one architecture as eager, captured as it is, and through the backend, and compares them on new inputs."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

import mps_simulator
from real_models.architecture import Architecture, Inputs, tensors

ROUNDS = 3
TRAINING_STEPS = 5
# Annotations of the wheel know nothing of what the series adds.
mps: Any = torch.mps
Call = Callable[[Inputs], list[torch.Tensor]]


@dataclass
class Outcome:
    """How one way to run a model came out."""

    # "equal", "as traced" (equal to the traced operators run eagerly, whose rounding is another), "differs",
    # "refused" or "fails"
    outcome: str
    reason: str = ""
    # of the graphs: steps by kind, pieces, linked stretches
    steps: dict[str, int] = field(default_factory=dict)
    splits: list[str] = field(default_factory=list)
    # of CPU time of the submitting thread, encoded and not executed
    microseconds: float | None = None


@dataclass
class Row:
    """A model with one dtype, and its outcomes by mode."""

    name: str
    kind: str
    dtype: str
    modes: dict[str, Outcome] = field(default_factory=dict)
    seconds: float = 0.0

    def failures(self) -> list[str]:
        """What a run must not have: another value than eager's, or an error of the compiled form."""
        bad = []
        for mode, outcome in self.modes.items():
            if outcome.outcome == "differs" or (mode != "as it is" and outcome.outcome in ("refused", "fails")):
                bad.append(f"{self.name}, {self.dtype}, {mode}: {outcome.outcome} {outcome.reason}".rstrip())
        return [] if self.modes["eager"].outcome != "equal" else bad

    def equal(self) -> list[str]:
        """What a run without replays must not have."""
        modes = [mode for mode, outcome in self.modes.items() if mode != "eager" and outcome.outcome == "equal"]
        return [f"{self.name}, {self.dtype}, {mode}: equal without a replay" for mode in modes]

    @staticmethod
    def of_json(values: dict[str, Any]) -> Row:
        """What `as_json` gave."""
        modes = {mode: Outcome(**outcome) for mode, outcome in values["modes"].items()}
        return Row(**{**values, "modes": modes})

    def as_json(self) -> dict[str, Any]:
        """For the report."""
        return asdict(self)


def on_device(inputs: Inputs, dtype: torch.dtype) -> Inputs:
    """Copies on the device, floating-point ones in the dtype."""
    return {
        name: value.to("mps", dtype if value.is_floating_point() else None)
        if isinstance(value, torch.Tensor)
        else value
        for name, value in inputs.items()
    }


def microseconds(run: Callable[[], object]) -> float | None:
    """Least CPU time of some passes; None for a model that reads what was not computed then."""
    best = float("inf")
    try:
        with mps_simulator.null_mode(), mps_simulator.validation(False):
            for _ in range(5):
                mps.synchronize()
                with mps_simulator.autorelease_pool():
                    begin = time.thread_time()
                    run()
                    best = min(best, time.thread_time() - begin)
            mps.synchronize()
    except (RuntimeError, IndexError):
        return None
    return best * 1e6


def reason_of(error: BaseException) -> str:
    """The first line of an error."""
    text = str(error).strip()
    return (text.splitlines()[0] if text else type(error).__name__)[:300]


class Comparison:
    """One model, eager results on a few inputs, and what runs it otherwise."""

    def __init__(self, architecture: Architecture, dtype: torch.dtype) -> None:
        torch.manual_seed(0)
        self.model = architecture.make().eval().to("mps", dtype)
        generator = torch.Generator().manual_seed(1)
        self.inputs = [on_device(architecture.inputs(generator), dtype) for _ in range(ROUNDS + 1)]
        self.expected: list[list[torch.Tensor]] = []
        # what a capture reads; new values are copied here
        self.static = on_device({k: v.clone() if hasattr(v, "clone") else v for k, v in self.inputs[0].items()}, dtype)

    def eager(self) -> Outcome:
        """Fills in what is expected."""
        try:
            for inputs in self.inputs:
                self.expected.append([t.clone() for t in tensors(self.model(**inputs))])
            mps.synchronize()
        except (RuntimeError, NotImplementedError, TypeError) as error:
            return Outcome("fails", reason_of(error))
        return Outcome("equal", microseconds=microseconds(lambda: self.model(**self.inputs[0])))

    @staticmethod
    def compare(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> str:
        """What differs, or nothing."""
        if len(found) != len(wanted):
            return f"{len(found)} results instead of {len(wanted)}"
        for position, (one, other) in enumerate(zip(found, wanted)):
            if one.shape != other.shape or one.dtype != other.dtype:
                return f"result {position} is {one.dtype} {list(one.shape)}"
            if not torch.equal(one.nan_to_num(93), other.nan_to_num(93)):
                difference = one.cpu().double() - other.cpu().double()
                return f"result {position} differs by {difference.abs().max().item():.3g}"
        return ""

    def captured(self) -> Outcome:
        """As it is: one graph around the call."""
        graph = mps.MPSGraph()
        try:
            with mps.graph(graph):
                results = list(tensors(self.model(**self.static)))
        except RuntimeError as error:
            return Outcome("refused", reason_of(error))
        for round_ in range(1, ROUNDS + 1):
            for name, value in self.inputs[round_].items():
                if isinstance(value, torch.Tensor):
                    self.static[name].copy_(value)
            for result in results:
                result.fill_(93)
            graph.replay()
            problem = self.compare(results, self.expected[round_])
            if problem:
                return Outcome("differs", problem)
        outcome = Outcome("equal", steps=steps_of([graph]), microseconds=microseconds(graph.replay))
        graph.reset()
        return outcome

    def compiled(self, link: bool) -> Outcome:
        """Through the backend."""
        torch._dynamo.reset()
        call = torch.compile(self.model, backend="mpsgraphs", options={"link": link})
        try:
            found = [[t.clone() for t in tensors(call(**inputs))] for inputs in self.inputs]
            problem = next(filter(None, map(self.compare, found, self.expected)), "")
            reports = mps.compile_report()
            pieces, splits = pieces_and_splits(reports)
            if not any(report["replays"] for report in reports):
                return Outcome("fails", "nothing was replayed", splits=splits)
            taken = microseconds(lambda: call(**self.inputs[0]))
            outcome = Outcome("equal", problem, pieces, splits, taken)
            if problem:
                outcome.outcome = "as traced" if self.is_as_traced(found) else "differs"
            return outcome
        except Exception as error:  # whatever it is, eager did without
            return Outcome("fails", reason_of(error))
        finally:
            torch._dynamo.reset()

    def is_as_traced(self, found: list[list[torch.Tensor]]) -> bool:
        """Whether Dynamo's backend that runs the same trace without graphs gives the same, bit for bit."""
        torch._dynamo.reset()
        call = torch.compile(self.model, backend="aot_eager")
        traced = [[t.clone() for t in tensors(call(**inputs))] for inputs in self.inputs]
        return not any(map(self.compare, found, traced))

    def trained(self, reference: str = "eager") -> Outcome:
        """Five steps through the backend, forward and backward: results, gradients, weights and buffers as in eager.

        Where they are not, they are compared with a backend of Dynamo's that runs the same trace without graphs.
        """
        torch._dynamo.reset()
        models = [copy.deepcopy(self.model).train() for _ in range(2)]
        calls: list[Any] = [
            models[0] if reference == "eager" else torch.compile(models[0], backend=reference),
            torch.compile(models[1], backend="mpsgraphs"),
        ]
        try:
            problem = self.train(models, calls)
            reports = mps.compile_report()
        except Exception as error:  # whatever it is, eager did without
            return Outcome("fails", reason_of(error))
        finally:
            torch._dynamo.reset()
        if problem and reference == "eager":
            again = self.trained("aot_eager")
            if again.outcome == "equal":
                again.outcome, again.reason = "as traced", problem
            return again
        if problem:
            return Outcome("differs", problem)
        replayed = {report["part"] for report in reports if report["replays"]}
        if not replayed >= {"forward", "backward"}:
            return Outcome("fails", f"replayed is only {sorted(replayed)}")
        pieces, splits = pieces_and_splits(reports)
        return Outcome("equal", steps=pieces, splits=splits)

    def train(self, models: list[torch.nn.Module], calls: list[Any]) -> str:
        """What differs after the same steps of both, or nothing."""
        optimizers = [torch.optim.SGD(model.parameters(), 1e-3) for model in models]
        for step in range(TRAINING_STEPS):
            inputs = self.inputs[step % len(self.inputs)]
            for call, optimizer in zip(calls, optimizers):
                torch.manual_seed(step)
                optimizer.zero_grad()
                results = (t.float() for t in tensors(call(**inputs)) if t.requires_grad)
                loss = sum(t.square().mean() for t in results)
                loss.backward()  # type: ignore[union-attr]
                optimizer.step()
            problem = different(*models)
            if problem:
                return f"{problem} after step {step}"
        return ""


def different(one: torch.nn.Module, other: torch.nn.Module) -> str:
    """The first weight, gradient or buffer that differs, or nothing."""
    for (name, a), (_, b) in zip(one.named_parameters(), other.named_parameters()):
        if (a.grad is None) != (b.grad is None):
            return f"whether {name} has a gradient"
        if a.grad is not None and b.grad is not None and not torch.equal(a.grad.nan_to_num(93), b.grad.nan_to_num(93)):
            return f"the gradient of {name}"
        if not torch.equal(a.nan_to_num(93), b.nan_to_num(93)):
            return name
    for (name, before), (_, after) in zip(one.named_buffers(), other.named_buffers()):
        if not torch.equal(before, after):
            return name
    return ""


def pieces_and_splits(reports: list[dict[str, Any]]) -> tuple[dict[str, int], list[str]]:
    """How many graphs all that was compiled is, and the operators between them."""
    splits = [split["operator"] for report in reports for split in report["splits"]]
    return {"pieces": sum(sum(report["pieces"]) for report in reports)}, splits


def steps_of(graphs: list[Any]) -> dict[str, int]:
    """Counts of steps by kind; those that there are."""
    kinds = ("graph_runs", "kernels", "copies", "fills", "kernel_objects", "host_refreshes")
    stats = [graph.stats() for graph in graphs]
    return {kind: total for kind in kinds if (total := sum(one[kind] for one in stats))}


def measure(architecture: Architecture, dtype: torch.dtype, train: bool = False) -> Row:
    """All modes of one model; training is one on request."""
    begin = time.monotonic()
    row = Row(architecture.name, architecture.kind, str(dtype).removeprefix("torch."))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        comparison = Comparison(architecture, dtype)
        row.modes["eager"] = comparison.eager()
        if row.modes["eager"].outcome == "equal":
            row.modes["as it is"] = comparison.captured()
            row.modes["compiled"] = comparison.compiled(link=False)
            row.modes["compiled, linked"] = comparison.compiled(link=True)
            if train:
                with torch.set_grad_enabled(True):
                    row.modes["compiled, training"] = comparison.trained()
    row.seconds = time.monotonic() - begin
    return row
