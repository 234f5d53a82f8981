"""A worker of the sweep: runs the cases of some operators and prints one JSON line for each."""

from __future__ import annotations

import contextlib
import json
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from sweep_exceptions import complaint_book, EAGER_LACKS, EagerFailed, first_line, sort_exception
from sweep_inputs import (
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
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils import _pytree as pytree

sys.path.append(str(Path(__file__).resolve().parents[1] / "capture_mode"))
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
# What these give is whatever the memory held: shapes and types are compared.
UNWRITTEN = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}

# The number of the sample where none could be made.
NO_SAMPLE = -1

raised_errors, forget_raised_errors = complaint_book()


def forget_earlier_errors() -> None:
    """What an earlier case left on the GPU fails here, and not in the next case."""
    with contextlib.suppress(RuntimeError):
        torch.mps.synchronize()
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
    # graph runs become one executable where they can
    link: bool = False


def operator_name(op: OpInfo) -> str:
    """The name under which the database knows the operator."""
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


def dtype_name(dtype: torch.dtype) -> str:
    """`float32` and the like."""
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


def run_case(case: Case) -> tuple[str, str]:
    """Outcome and reason of one sample."""
    originals = tensors_of(case.sample)
    state, host_state = torch.mps.get_rng_state(), torch.random.get_rng_state()

    def run_eager(inputs: Tensors) -> Tensors:
        torch.mps.set_rng_state(state)
        torch.random.set_rng_state(host_state)
        with torch.set_grad_enabled(case.gradients):
            made = forward_and_backward(case.function, case.sample, inputs, case.gradients)
        torch.mps.synchronize()
        return made

    forget_earlier_errors()
    try:
        made = run_eager(copies(originals))
    except Exception as error:
        raise sort_exception(error, raised_errors()) from None
    if not any(t.device.type == DEVICE for t in [*originals, *made]):
        raise EagerFailed(EAGER_LACKS, "neither takes nor gives a tensor of the device")

    tensors = copies(originals)
    graph = torch.mps.MPSGraph()
    # what the host draws is frozen: the same numbers as eager's
    torch.random.set_rng_state(host_state)
    try:
        with torch.mps.graph(graph, link=case.link), torch.set_grad_enabled(case.gradients):
            results = forward_and_backward(case.function, case.sample, tensors, case.gradients)
    except Exception as error:
        reason = refusal(error)
        return ("wrong", f"capture raised: {first_line(str(error))}") if reason is None else ("refused", reason)

    at_capture = host_values(originals)
    expected: Tensors = []
    eager_error: Exception | None = None
    for way, contents in [*other_contents(originals, case.other), ("unchanged", originals)]:
        write_all(tensors, contents)
        if way != "unchanged" and same(host_values(tensors), at_capture):
            continue
        changed = copies(tensors)
        try:
            expected, eager_error = run_eager(changed), None
            break
        except Exception as error:
            eager_error = error
            if way == "second sample":
                break
            write_all(tensors, originals)
    wanted = host_values([*expected, *changed, torch.mps.get_rng_state()])
    fill_with_garbage(results, tensors)
    torch.mps.set_rng_state(state)

    def found() -> Tensors:
        return host_values([*results, *tensors, torch.mps.get_rng_state()])

    visible = not same(found(), wanted)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an empty graph warns
            if case.replay:
                graph.replay()
        torch.mps.synchronize()
    except Exception as error:
        if eager_error:
            return "no_effect_visible", "eager and the replay raise"
        return "wrong", f"replay raised: {first_line(str(error))}"
    if eager_error:
        # the host looked at values, which a capture would have refused
        return "wrong", f"eager raises on the {way} inputs, the replay does not: {first_line(str(eager_error))}"
    good = "unchanged_inputs" if way == "unchanged" else "equal"
    if same(found(), wanted):
        return (good, way) if visible else ("no_effect_visible", "the same before the replay")
    if case.unwritten and [(r.shape, r.dtype) for r in results] == [(e.shape, e.dtype) for e in expected]:
        return "no_effect_visible", "nothing is written: shapes and types"
    if [(r.shape, r.dtype) for r in results] != [(e.shape, e.dtype) for e in expected]:
        return "wrong", "other shapes"

    def eager_again() -> Tensors:
        again = copies(originals)
        write_all(again, contents)
        return [*run_eager(again), *again]

    after = found()
    if not torch.equal(after[-1], wanted[-1]):
        return "wrong", GENERATOR_DIFFERS
    if case.replay and as_near_as_eager_to_itself([*results, *tensors], [*expected, *changed], eager_again, EAGER_RUNS):
        return (
            "equal_up_to_rounding" if good == "equal" else good,
            "eager itself gives other last bits from run to run",
        )
    count = len(results)
    return "wrong", INPUTS_DIFFER if same(after[:count], wanted[:count]) else RESULTS_DIFFER


def taken(op: OpInfo, dtype: torch.dtype, every: int, seed: int) -> bool:
    """Whether a sample of one in so many pairs of operator and dtype has this one; each seed takes others."""
    return zlib.crc32(f"{operator_name(op)} {dtype_name(dtype)}".encode()) % every == seed % every


def sweep_operator(op: OpInfo, order: dict[str, Any], emit: Callable[[dict[str, Any]], None]) -> None:
    """The dtypes of one operator that the order wants, with at most so many of their samples."""
    for dtype in DTYPES:
        if not taken(op, dtype, order["every"], order["seed"]):
            continue
        pair = {"op": operator_name(op), "dtype": dtype_name(dtype), "listed": dtype in op.dtypes}
        gradients = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
        forget_earlier_errors()
        try:
            first = samples(op, dtype, gradients)
        except Exception as error:
            failed = sort_exception(error, raised_errors())
            emit({**pair, "sample": NO_SAMPLE, "pass": "", "outcome": failed.outcome, "reason": failed.reason})
            continue
        others = other_samples(op, dtype, gradients, len(first))
        step = 1 if order["most"] is None else -(-len(first) // order["most"])
        for number, (sample, other) in enumerate(zip(first, others)):
            key = f"{pair['op']} {pair['dtype']} {number}"
            if number % step or key in order["skip"]:
                continue
            emit({"begin": key})
            for outcome in outcomes(op, sample, other, gradients, number, order):
                emit({**pair, "sample": number, **outcome})
            emit({"end": key})


def outcomes(
    op: OpInfo, sample: SampleInput, other: SampleInput | None, gradients: bool, number: int, order: dict[str, Any]
) -> Iterator[dict[str, str]]:
    """Forward and backward in one; where eager lacks that, that and the forward pass by itself."""
    for with_gradients, name in ((True, "forward and backward"), (False, "forward")):
        if with_gradients and not gradients:
            continue
        torch.manual_seed(number)
        case = Case(op.op, sample, other, with_gradients, op.name in UNWRITTEN, order["replay"], order["link"])
        try:
            outcome, reason = run_case(case)
        except EagerFailed as failed:
            yield {"pass": name, "outcome": failed.outcome, "reason": failed.reason}
            continue
        yield {"pass": name, "outcome": outcome, "reason": reason}
        return


def main() -> None:
    """Reads {"ops", "every", "seed", "most", "skip", "replay", "link"} from standard input."""
    order = json.load(sys.stdin)
    wanted = set(order["ops"])
    order["skip"] = set(order["skip"])
    out = sys.stdout
    sys.stdout = sys.stderr

    def emit(line: dict[str, Any]) -> None:
        print(json.dumps(line), file=out, flush=True)

    warnings.simplefilter("ignore")
    for op in op_db:
        if operator_name(op) in wanted:
            sweep_operator(op, order, emit)
            emit({"done": operator_name(op)})


if __name__ == "__main__":
    main()
