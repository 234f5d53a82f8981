"""The cases of the sweep: captures, changes and replays one sample of one operator."""

from __future__ import annotations

import sys
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from sweep_exceptions import complaint_book, EAGER_LACKS, first_line, NotReplayed, sort_exception, WITHOUT_EAGER
from sweep_inputs import (
    alias,
    bytes_of,
    copies,
    DEVICE,
    fill_with_garbage,
    host_values,
    other_contents,
    same,
    Tensors,
    tensors_of,
    with_tensors,
    write_all,
)
from sweep_report import GENERATOR_DIFFERS, INPUTS_DIFFER, RESULTS_DIFFER
from sweep_state import change_metadata, CHANGES, with_room
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils import _pytree as pytree

sys.path.append(str(Path(__file__).resolve().parents[2] / "upstream" / "captured"))
from mps_capture_rounding import as_near_as_eager_to_itself  # noqa: E402

DTYPES = (
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.complex64,
)
# How often eager is asked at most how far each element is from itself.
EAGER_RUNS = 100
# Of the second samples; the first ones are drawn as upstream's tests draw them.
OTHER_SEED = 1
# What a capture may refuse, by the words of its message.
REASONS = {
    "the host read device data": "host read",
    "falls back to the CPU": "CPU fallback",
    "a generator was seeded": "generator state",
    "an event was recorded": "event",
    "Resize or replace tensors": "moved storage",
}
# How a replay says that it can't give what eager would.
REPLAY_RAISES = "torch.mps graph replay: "
# What these give is whatever the memory held: shapes and types are compared.
UNWRITTEN = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}

# How many errors one case may leave.
MOST_ERRORS = 100
# The number of the sample where none could be made.
NO_SAMPLE = -1

raised_errors, forget_raised_errors = complaint_book()


def forget_earlier_errors() -> None:
    """What an earlier case left on the GPU fails here, and not in the next case."""
    for _ in range(MOST_ERRORS):
        try:
            torch.mps.synchronize()
            break
        except RuntimeError:
            continue  # there may be one for each command buffer
    forget_raised_errors()


@dataclass(frozen=True)
class Case:
    """One sample of one operator, forward only or with its gradients."""

    function: Callable[..., Any]
    sample: SampleInput
    # the same sample with other numbers, if it could be drawn
    other: SampleInput | None
    gradients: bool
    unwritten: bool = False
    # False leaves the replay out, to see that the comparison notices
    replay: bool = True


def operator_name(op: OpInfo) -> str:
    """The name under which the database knows the operator."""
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


OPERATORS = {operator_name(op): op for op in op_db}


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def samples(op: OpInfo, dtype: torch.dtype, requires_grad: bool) -> list[SampleInput]:
    """The sample inputs that upstream's tests get: the database seeds before each."""
    return list(op.sample_inputs(DEVICE, dtype, requires_grad=requires_grad))  # type: ignore[no-untyped-call]


def other_samples(op: OpInfo, dtype: torch.dtype, requires_grad: bool, count: int) -> list[SampleInput | None]:
    """The same with other numbers; none where their number differs, so that none could be told to be alike."""
    torch.manual_seed(OTHER_SEED)
    try:
        given = {"requires_grad": requires_grad, "set_seed": False}
        drawn = list(op.sample_inputs(DEVICE, dtype, **given))  # type: ignore[no-untyped-call]
    except Exception:
        drawn = []
    return list(drawn) if len(drawn) == count else [None] * count


def forward_and_backward(
    function: Callable[..., Any], sample: SampleInput, tensors: Tensors, gradients: bool
) -> Tensors:
    """Results on the device and, if asked for, gradients of the inputs."""
    first, args, kwargs = with_tensors(sample, tensors)
    # the database seeds before each draw; here that is the caller's business
    with mock.patch.object(torch, "manual_seed"):
        everything = function(first, *args, **kwargs)
    results = [r for r in pytree.tree_leaves(everything) if isinstance(r, torch.Tensor)]
    grads: Tensors = []
    if gradients:
        inputs = [t for t in tensors if t.requires_grad]
        outputs = [r for r in results if r.requires_grad and (r.is_floating_point() or r.is_complex())]
        if inputs and outputs:
            given = torch.autograd.grad(outputs, inputs, [torch.ones_like(r) for r in outputs], allow_unused=True)
            grads = [g for g in given if g is not None]
    return [r.detach() for r in results] + grads


def refusal(error: Exception) -> str | None:
    """The contract's name for the reason, if the error is a capture's refusal."""
    text = str(error)
    if "torch.mps graph" not in text:
        return None
    return next((reason for words, reason in REASONS.items() if words in text), f"other: {first_line(text)}")


class Captured:
    """A case and the inputs of its graph; raises NotReplayed if eager does not run it or the capture raises."""

    def __init__(self, case: Case, tensors: Tensors) -> None:
        self.case, self.tensors = case, tensors
        self.state, self.host_state = torch.mps.get_rng_state(), torch.random.get_rng_state()
        forget_earlier_errors()
        try:
            made = self.run_eager(copies(tensors))
        except Exception as error:
            raise sort_exception(error, raised_errors()) from None
        if not any(t.device.type == DEVICE for t in [*tensors, *made]):
            raise NotReplayed(EAGER_LACKS, "neither takes nor gives a tensor of the device")
        # the same memory and metadata, whatever the inputs themselves are given later
        self.at_capture = [alias(tensor).requires_grad_(tensor.requires_grad) for tensor in tensors]
        self.graph = torch.mps.MPSGraph()
        # what the host draws is frozen: the same numbers as eager's
        torch.random.set_rng_state(self.host_state)
        try:
            with torch.mps.graph(self.graph), torch.set_grad_enabled(case.gradients):
                self.results = forward_and_backward(case.function, case.sample, tensors, case.gradients)
        except Exception as error:
            reason = refusal(error)
            if reason is None:
                raise NotReplayed("wrong", f"capture raised: {first_line(str(error))}") from None
            raise NotReplayed("refused", reason) from None

    def run_eager(self, inputs: Tensors) -> Tensors:
        torch.mps.set_rng_state(self.state)
        torch.random.set_rng_state(self.host_state)
        with torch.set_grad_enabled(self.case.gradients):
            made = forward_and_backward(self.case.function, self.case.sample, inputs, self.case.gradients)
        torch.mps.synchronize()
        return made

    def compare(self, way: str, eager: Eager, ignoring: Eager | None = None) -> tuple[str, str]:
        """Replays and compares; `ignoring` is what a replay would give that ignores the inputs' new metadata."""
        case, results, tensors = self.case, self.results, self.tensors
        fill_with_garbage(results, [*tensors, *self.at_capture])
        torch.mps.set_rng_state(self.state)

        def found() -> Tensors:
            return host_values([*results, *tensors, torch.mps.get_rng_state()])

        visible = not same(found(), eager.values) and not (ignoring and ignoring.gives_the_same_as(eager))
        submitted = False
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # an empty graph warns
                if case.replay:
                    self.graph.replay()
            submitted = True
            torch.mps.synchronize()
        except Exception as error:
            if ignoring and not submitted and str(error).startswith(REPLAY_RAISES):
                return ("raised", way) if visible else ("no_effect_visible", "raised without need")
            if eager.error:
                return "no_effect_visible", "eager and the replay raise"
            return "wrong", f"replay raised: {first_line(str(error))}"
        if eager.error and ignoring:
            return "wrong", "eager raises, the replay does not"
        if eager.error:
            # the host looked at values, which a capture would have refused
            return "wrong", f"eager raises on the {way} inputs, the replay does not: {first_line(str(eager.error))}"
        good = "unchanged_inputs" if way == "unchanged" else "equal"
        if same(found(), eager.values):
            if visible:
                return good, way
            return "no_effect_visible", "the same if ignored" if ignoring else "the same before the replay"
        if shapes(results) != shapes(eager.results):
            return "wrong", "other shapes"
        if case.unwritten:
            return "no_effect_visible", "nothing is written: shapes and types"

        def eager_again() -> Tensors:
            again = copies(eager.before)
            return [*self.run_eager(again), *again]

        after = found()
        if not torch.equal(after[-1], eager.values[-1]):
            return "wrong", GENERATOR_DIFFERS
        if case.replay and as_near_as_eager_to_itself(
            [*results, *tensors], [*eager.results, *eager.after], eager_again, EAGER_RUNS
        ):
            return (
                "equal_up_to_rounding" if good == "equal" else good,
                "eager itself gives other last bits from run to run",
            )
        count = len(results)
        return "wrong", INPUTS_DIFFER if same(after[:count], eager.values[:count]) else RESULTS_DIFFER


class Eager:
    """What eager makes of these inputs, or why it raises; `seen_as` are the same ones with other metadata."""

    def __init__(self, captured: Captured, inputs: Tensors, seen_as: Tensors | None = None) -> None:
        self.before, self.after = copies(inputs), seen_as or inputs
        self.results: Tensors = []
        self.error: Exception | None = None
        self.unwritten = captured.case.unwritten
        try:
            self.results = captured.run_eager(inputs)
        except Exception as error:
            self.error = error
        self.values = host_values([*self.results, *self.after, torch.mps.get_rng_state()])

    def gives_the_same_as(self, other: Eager) -> bool:
        if self.unwritten:
            return shapes(self.results) == shapes(other.results)
        return bool(self.error) == bool(other.error) and same(self.values, other.values)


def shapes(tensors: Tensors) -> list[tuple[torch.Size, torch.dtype]]:
    return [(tensor.shape, tensor.dtype) for tensor in tensors]


def run_case(case: Case) -> tuple[str, str]:
    """Outcome and reason of one sample, whose inputs get other values."""
    originals = tensors_of(case.sample)
    captured = Captured(case, copies(originals))
    tensors, at_capture = captured.tensors, host_values(originals)
    for way, contents in [*other_contents(originals, case.other), ("unchanged", originals)]:
        write_all(tensors, contents)
        if way != "unchanged" and same(host_values(tensors), at_capture):
            continue
        eager = Eager(captured, copies(tensors))
        if not eager.error or way == "second sample":
            break
        write_all(tensors, originals)
    return captured.compare(way, eager)


def run_state(case: Case) -> Iterator[dict[str, Any]]:
    """The same for each tensor in turn with other metadata, and at last with that of the capture again."""
    # with_room() waits for the device, and would raise what an earlier case left.
    forget_earlier_errors()
    originals = with_room(tensors_of(case.sample), case.other)
    captured = Captured(case, copies(originals))
    tensors = captured.tensors
    for number, (tensor, old) in enumerate(zip(tensors, captured.at_capture)):
        for name, change in CHANGES.items():
            if change_metadata(tensor, change):
                forget_earlier_errors()
                *seen_as, ignored = copies([*tensors, old])
                inputs = [*seen_as[:number], ignored, *seen_as[number + 1 :]]
                ignoring = Eager(captured, inputs, seen_as)
                outcome, reason = captured.compare(name, Eager(captured, copies(tensors)), ignoring)
                yield {"tensor": number, "change": name, "outcome": outcome, "reason": reason}
            tensor.data = old.detach()
            for changed, original in zip(captured.at_capture, originals):
                bytes_of(changed).copy_(bytes_of(original))
    outcome, reason = captured.compare("undone", Eager(captured, copies(tensors)))
    yield {"change": "undone", "outcome": outcome, "reason": reason}


def taken(op: OpInfo, dtype: torch.dtype, every: int, seed: int) -> bool:
    """Whether a sample of one in so many pairs of operator and dtype has this one; each seed takes others."""
    return zlib.crc32(f"{operator_name(op)} {dtype_name(dtype)}".encode()) % every == seed % every


def outcomes_of(name: str, dtype_named: str, order: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The outcomes of one operator and dtype, with at most so many samples as the order says."""
    op = OPERATORS[name]
    dtype = getattr(torch, dtype_named)
    listed = {"listed": dtype in op.dtypes}
    gradients = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    forget_earlier_errors()
    try:
        first = samples(op, dtype, gradients)
    except Exception as error:
        failed = sort_exception(error, raised_errors())
        yield {**listed, "sample": NO_SAMPLE, "pass": "", "outcome": failed.outcome, "reason": failed.reason}
        return
    others = other_samples(op, dtype, gradients, len(first))
    step = 1 if order["most"] is None else max(1, -(-len(first) // order["most"]))
    for number in range(0, len(first), step):
        for outcome in outcomes(op, first[number], others[number], gradients, number, order):
            yield {**listed, "sample": number, **outcome}


def outcomes(
    op: OpInfo, sample: SampleInput, other: SampleInput | None, gradients: bool, number: int, order: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Forward and backward in one; where eager lacks that, that and the forward pass by itself."""
    for with_gradients, name in ((True, "forward and backward"), (False, "forward")):
        if with_gradients and not gradients:
            continue
        torch.manual_seed(number)
        case = Case(op.op, sample, other, with_gradients, op.name in UNWRITTEN, order["replay"])
        try:
            if order["compiled"]:
                from sweep_compiled import run_layouts

                yield from ({"pass": name, **found} for found in run_layouts(case))
            elif order["state"]:
                yield from ({"pass": name, **found} for found in run_state(case))
            else:
                outcome, reason = run_case(case)
                yield {"pass": name, "outcome": outcome, "reason": reason}
            return
        except NotReplayed as failed:
            yield {"pass": name, "outcome": failed.outcome, "reason": failed.reason}
            if failed.outcome not in WITHOUT_EAGER:
                return
