"""Runs one architecture as eager, captured as it is, and through the backend, and compares them on new inputs."""

import copy
import json
import math
import re
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from benchmark import simulated_times
from torch._dynamo.backends import mpsgraphs  # type: ignore[attr-defined]
from torch._dynamo.backends.debugging import boxed_nop
from torch._dynamo.utils import counters

from real_models.architecture import Architecture, Inputs, tensors

ROUNDS = 3
TRAINING_STEPS = 5
# How much farther from a trace replays may be than it is from itself, where it adds in no fixed order.
SPREAD = 4.0
REPEATS = 3
# Annotations of the wheel know nothing of what the series adds.
mps: Any = torch.mps
# Of a model that is trained: tensors by what they are.
State = dict[str, torch.Tensor]


@dataclass
class Outcome:
    """How one way to run a model came out."""

    # "equal", "differs", "refused" or "fails"; of training also "as traced" (equal to the traced operators run eagerly,
    # whose rounding is another) or "not repeatable" (as near to these as they are to themselves)
    outcome: str
    reason: str = ""
    # pieces and graph breaks, or captures and replays
    steps: dict[str, int] = field(default_factory=dict)
    splits: list[str] = field(default_factory=list)
    # of CPU time of the submitting thread, encoded and not executed
    microseconds: float | None = None


# A capture by hand may be refused, of the forward pass or of a step of generate().
MAY_BE_REFUSED = ("as it is", "greedy", "sampled")


@dataclass
class Row:
    """A model with one dtype, or a case of generate(), and its outcomes by mode."""

    name: str
    kind: str
    dtype: str
    modes: dict[str, Outcome] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def key(self) -> str:
        """What messages and reports call it."""
        return f"{self.name}, {self.dtype}"

    def failures(self) -> list[str]:
        """What a run must not have: another value than eager's, or an error of the compiled form."""
        return [
            f"{self.key}, {mode}: {outcome.outcome} {outcome.reason}".rstrip()
            for mode, outcome in self.modes.items()
            if mode != "eager"
            and (
                outcome.outcome in ("differs", "fails") or (outcome.outcome == "refused" and mode not in MAY_BE_REFUSED)
            )
        ]

    def equal(self) -> list[str]:
        """What a run without replays must not have."""
        return [
            f"{self.key}, {mode}: {outcome.outcome} without a replay"
            for mode, outcome in self.modes.items()
            if mode != "eager" and outcome.outcome in ("equal", "as traced")
        ]


# Rows by their keys.
Rows = dict[str, Row]


def write(path: Path, rows: Rows) -> None:
    """Keep all rows of build/reports/models.json, and how many outcomes there are of each mode."""
    totals: dict[str, Counter[str]] = {}
    for row in rows.values():
        for mode, outcome in row.modes.items():
            totals.setdefault(mode, Counter())[outcome.outcome] += 1
    path.parent.mkdir(parents=True, exist_ok=True)
    found = {"totals": totals, "rows": [asdict(row) for row in rows.values()]}
    path.write_text(json.dumps(found, indent=1) + "\n")


def read(path: Path) -> Rows:
    """Those of an earlier run, or none."""
    if not path.exists():
        return {}
    rows = [
        Row(**{**values, "modes": {mode: Outcome(**outcome) for mode, outcome in values["modes"].items()}})
        for values in json.loads(path.read_text())["rows"]
    ]
    return {row.key: row for row in rows}


def on_device(inputs: Inputs, dtype: torch.dtype) -> Inputs:
    return {
        name: value.to("mps", dtype if value.is_floating_point() else None)
        if isinstance(value, torch.Tensor)
        else value
        for name, value in inputs.items()
    }


def microseconds(run: Callable[[], object]) -> float | None:
    """Least CPU time of some passes; None for a model that reads what was not computed then."""
    try:
        return min(simulated_times.microseconds({"": run}, calls=1, trials=5)[""])
    except (RuntimeError, IndexError):
        return None


# What the page must not have of the machine that it was made on.
_FOLDERS = re.compile(r"/\S+/(?:build/models/packages|site-packages)/")


def reason_of(error: BaseException) -> str:
    """The first line of an error, with the names of files in the libraries' packages."""
    text = _FOLDERS.sub("", str(error).strip())
    return (text.splitlines()[0] if text else type(error).__name__)[:300]


def traced_only(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
    """A backend that runs the trace of ours without graphs."""
    return mpsgraphs._aot_autograd(fw_compiler=boxed_nop)(module, inputs)


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
            self.expected = self.results(self.model)
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
        outcome = Outcome("equal", microseconds=microseconds(graph.replay))
        graph.reset()
        return outcome

    def compiled(self) -> Outcome:
        """Through the backend."""
        torch._dynamo.reset()
        counters.clear()
        call = torch.compile(self.model, backend="mpsgraphs")
        try:
            found = self.results(call)
            problem = next(filter(None, map(self.compare, found, self.expected)), "")
            reports = mps.compile_report()
            pieces, splits = pieces_and_splits(reports)
            breaks = sum(counters["graph_break"].values())
            if breaks:
                pieces["graph breaks"] = breaks
            if not any(report["replays"] for report in reports):
                return Outcome("fails", "nothing was replayed", splits=splits)
            taken = microseconds(lambda: call(**self.inputs[0]))
            return Outcome("differs" if problem else "equal", problem, pieces, splits, taken)
        except Exception as error:  # whatever it is, eager did without
            return Outcome("fails", reason_of(error))
        finally:
            torch._dynamo.reset()

    def results(self, call: Callable[..., Any]) -> list[list[torch.Tensor]]:
        """What a call gives for all inputs."""
        return [[t.clone() for t in tensors(call(**inputs))] for inputs in self.inputs]

    def trained(self) -> Outcome:
        """Five steps through the backend, forward and backward: losses, gradients, weights and buffers as in eager.

        Where they are not, they are compared with the same trace, run without graphs.
        """
        wanted = list(self.train("eager"))
        try:
            found = list(self.train("mpsgraphs"))
            reports = mps.compile_report()
        except Exception as error:  # whatever it is, eager did without
            return Outcome("fails", reason_of(error))
        finally:
            torch._dynamo.reset()
        problem = different(found, wanted)
        outcome = Outcome("equal")
        if problem:
            outcome = self.compared_with_trace(found, problem)
        if outcome.outcome == "differs":
            return outcome
        replayed = {report["part"] for report in reports if report["replays"]}
        if not replayed >= {"forward", "backward"}:
            return Outcome("fails", f"replayed is only {sorted(replayed)}")
        outcome.steps, outcome.splits = pieces_and_splits(reports)
        return outcome

    def compared_with_trace(self, found: list[State], problem: str) -> Outcome:
        """What training that differs from eager is, by the same trace without captures."""
        try:
            traced = list(self.train(traced_only))
            if not different(found, traced):
                return Outcome("as traced", problem)
            # several, since two may agree by chance
            own = max(distance(traced, list(self.train(traced_only))) for _ in range(REPEATS))
        finally:
            torch._dynamo.reset()
        others = distance(found, traced)
        if others <= SPREAD * own:
            return Outcome(
                "not repeatable", f"the trace differs from itself by {own:.1g}, replays from it by {others:.1g}"
            )
        return Outcome("differs", problem)

    def train(self, backend: Any) -> Iterator[State]:
        """What there is after each step of a copy of the model.

        The backend is one of `torch.compile`, or "eager". Nothing else is compiled by then: Dynamo takes the shapes of a second model for dynamic ones.
        """
        torch._dynamo.reset()
        model = copy.deepcopy(self.model).train()
        call: Any = model if backend == "eager" else torch.compile(model, backend=backend)
        optimizer = torch.optim.SGD(model.parameters(), 1e-3)
        for step in range(TRAINING_STEPS):
            torch.manual_seed(step)
            optimizer.zero_grad()
            inputs = self.inputs[step % len(self.inputs)]
            results = (t.float() for t in tensors(call(**inputs)) if t.requires_grad)
            loss: Any = sum(t.square().mean() for t in results)
            loss.backward()
            optimizer.step()
            state = {"the loss": loss.detach()}
            for name, parameter in model.named_parameters():
                if parameter.grad is not None:
                    state[f"the gradient of {name}"] = parameter.grad
                state[name] = parameter.detach()
            state.update(model.named_buffers())
            yield {name: value.clone() for name, value in state.items()}


def distance(one: list[State], other: list[State]) -> float:
    """The largest difference between two numbers of two runs."""
    if [*map(dict.keys, one)] != [*map(dict.keys, other)]:
        return math.inf
    return max(
        (state[name].cpu().double() - wanted[name].cpu().double()).abs().max().item()
        for state, wanted in zip(one, other, strict=True)
        for name in state
    )


def different(found: Iterable[State], wanted: Iterable[State]) -> str:
    """The first tensor that differs, or nothing."""
    for step, (one, other) in enumerate(zip(found, wanted, strict=True)):
        for name in one | other:
            if name not in one or name not in other:
                return f"whether there is {name} after step {step}"
            if not torch.equal(*(state[name].nan_to_num(93) for state in (one, other))):
                return f"{name} after step {step}"
    return ""


def pieces_and_splits(reports: list[dict[str, Any]]) -> tuple[dict[str, int], list[str]]:
    """How many graphs all that was compiled is, and the operators between them."""
    splits = [split["operator"] for report in reports for split in report["splits"]]
    return {"pieces": sum(sum(report["pieces"]) for report in reports)}, splits


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
            row.modes["compiled"] = comparison.compiled()
            if train:
                with torch.set_grad_enabled(True):
                    row.modes["compiled, training"] = comparison.trained()
    row.seconds = time.monotonic() - begin
    return row
