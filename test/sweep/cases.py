"""A worker of the sweep: runs the cases of some operators and prints one JSON line for each."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils import _pytree as pytree

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "capture_mode"))
from mps_capture_rounding import as_near_as_eager_to_itself  # noqa: E402

DEVICE = "mps"
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
# How often eager is asked at most how far it is from itself.
EAGER_RUNS = 4
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


class Unsupported(Exception):
    """Eager does not run the case on the device, so there is nothing to capture."""


def operator_name(op: OpInfo) -> str:
    """The name under which the database knows the operator."""
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


def dtype_name(dtype: torch.dtype) -> str:
    """`float32` and the like."""
    return str(dtype).removeprefix("torch.")


def samples(op: OpInfo, dtype: torch.dtype, seed: int, requires_grad: bool) -> Iterator[SampleInput]:
    """The sample inputs, whose numbers differ by seed."""
    torch.manual_seed(seed)
    return iter(op.sample_inputs(DEVICE, dtype, requires_grad=requires_grad))


def tensors_of(sample: SampleInput) -> list[torch.Tensor]:
    """The tensors in a sample, in a fixed order."""
    leaves = pytree.tree_leaves((sample.input, sample.args, sample.kwargs))
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def with_tensors(sample: SampleInput, tensors: list[torch.Tensor]) -> tuple[Any, Any, Any]:
    """Input, args and kwargs of the sample with other tensors."""
    leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    rest = iter(tensors)
    return pytree.tree_unflatten([next(rest) if isinstance(x, torch.Tensor) else x for x in leaves], spec)


def copies(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Tensors of the same strides and content, and of the same wish for gradients."""
    result = []
    for tensor in tensors:
        copy = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
        copy.copy_(tensor.detach())
        result.append(copy.requires_grad_(tensor.requires_grad))
    return result


def new_content(old: list[torch.Tensor], other: SampleInput | None) -> list[torch.Tensor]:
    """What to write into the inputs: those of a second sample if it is alike, otherwise the old ones rotated."""
    candidates = tensors_of(other) if other is not None else []
    if len(candidates) == len(old) and all(a.shape == b.shape and a.dtype == b.dtype for a, b in zip(old, candidates)):
        return [c.detach() for c in candidates]
    return [t.detach().flatten().roll(1).view(t.shape) for t in old]


def forward_and_backward(
    function: Callable[..., Any], sample: SampleInput, tensors: list[torch.Tensor], gradients: bool
) -> list[torch.Tensor]:
    """Results and, if asked for, gradients of the inputs."""
    first, args, kwargs = with_tensors(sample, tensors)
    # the database seeds before each draw; here that is the caller's business
    with mock.patch.object(torch, "manual_seed"):
        everything = function(first, *args, **kwargs)
    results = [r for r in pytree.tree_leaves(everything) if isinstance(r, torch.Tensor)]
    if not gradients:
        return [r.detach() for r in results]
    inputs = [t for t in tensors if t.requires_grad]
    outputs = [r for r in results if r.requires_grad and (r.is_floating_point() or r.is_complex())]
    grads: list[torch.Tensor] = []
    if inputs and outputs:
        given = torch.autograd.grad(outputs, inputs, [torch.ones_like(r) for r in outputs], allow_unused=True)
        grads = [g for g in given if g is not None]
    return [r.detach() for r in results] + grads


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    """True if bit-equal, where NaN equals NaN."""

    def equal(x: torch.Tensor, y: torch.Tensor) -> bool:
        x, y = x.cpu().resolve_conj().resolve_neg(), y.cpu().resolve_conj().resolve_neg()
        if x.shape != y.shape or x.dtype != y.dtype:
            return False
        if x.is_complex():
            x, y = torch.view_as_real(x), torch.view_as_real(y)
        return bool(((x == y) | ((x != x) & (y != y))).all())

    return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b))


def refusal(error: Exception) -> str | None:
    """The contract's name for the reason, if the error is a capture's refusal."""
    text = str(error)
    if "torch.mps graph" not in text:
        return None
    return next((reason for words, reason in REASONS.items() if words in text), f"other: {text.splitlines()[0]}")


def run_case(
    function: Callable[..., Any],
    sample: SampleInput,
    other: SampleInput | None,
    gradients: bool,
    unwritten: bool = False,
) -> tuple[str, str]:
    """Outcome and reason of one sample."""
    originals = tensors_of(sample)
    on_device = [t for t in originals if t.device.type == DEVICE]
    if not on_device:
        raise Unsupported("no tensor on the device")
    state = torch.mps.get_rng_state()
    try:
        with torch.set_grad_enabled(gradients):
            forward_and_backward(function, sample, copies(originals), gradients)
        torch.mps.synchronize()
    except Exception as error:
        raise Unsupported(str(error)) from None

    tensors = copies(originals)
    graph = torch.mps.MPSGraph()
    try:
        with torch.mps.graph(graph), torch.set_grad_enabled(gradients):
            results = forward_and_backward(function, sample, tensors, gradients)
    except Exception as error:
        reason = refusal(error)
        return ("wrong", f"capture raised: {error}") if reason is None else ("refused", reason)

    for tensor, content in zip(tensors, new_content(originals, other)):
        tensor.detach().copy_(content)
    changed = copies(tensors)
    before = copies(tensors)

    def run_eager(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        torch.mps.set_rng_state(state)
        with torch.set_grad_enabled(gradients):
            made = forward_and_backward(function, sample, inputs, gradients)
        torch.mps.synchronize()
        return made

    try:
        expected = run_eager(changed)
        eager_error = None
    except Exception as error:
        eager_error = error
    torch.mps.set_rng_state(state)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an empty graph warns
            graph.replay()
        torch.mps.synchronize()
    except Exception as error:
        return ("equal", "both raise") if eager_error else ("wrong", f"replay raised: {error}")
    if eager_error:
        # the host looked at values, which strict mode would have refused
        return "wrong", f"eager raises on the new inputs, the replay does not: {eager_error}"
    if same(results, expected) and same(tensors, changed):
        return "equal", ""
    if unwritten and [(r.shape, r.dtype) for r in results] == [(e.shape, e.dtype) for e in expected]:
        return "equal", "nothing is written: shapes and types"
    if [r.shape for r in results] != [e.shape for e in expected]:
        return "wrong", "other shapes"

    def eager_again() -> list[torch.Tensor]:
        again = copies(before)
        return run_eager(again) + again

    if as_near_as_eager_to_itself(results + tensors, expected + changed, eager_again, EAGER_RUNS):
        return "equal", "up to rounding: eager itself gives other last bits from run to run"
    return "wrong", "inputs differ afterwards" if same(results, expected) else "results or gradients differ"


def sweep_operator(
    op: OpInfo, take: Callable[[], bool], most: int | None, emit: Callable[[dict[str, Any]], None], skip: set[str]
) -> None:
    """The dtypes of one operator that `take` wants, with at most `most` of their samples."""
    for dtype in DTYPES:
        if not take():
            continue
        gradients = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
        try:
            first = list(samples(op, dtype, 0, gradients))
            second = list(samples(op, dtype, 1, gradients))
        except Exception:
            continue  # no samples of this dtype can be made on the device
        others: list[SampleInput | None] = list(second) if len(second) == len(first) else [None] * len(first)
        step = 1 if most is None else -(-len(first) // most)
        for number, (sample, other) in enumerate(zip(first, others)):
            case = {"op": operator_name(op), "dtype": dtype_name(dtype), "sample": number}
            key = f"{case['op']} {case['dtype']} {number}"
            if number % step or key in skip:
                continue
            emit({"begin": key})
            torch.manual_seed(number)
            try:
                try:
                    outcome, reason = run_case(op.op, sample, other, gradients, op.name in UNWRITTEN)
                except Unsupported:
                    if not gradients:
                        raise
                    # eager may still have the forward pass
                    outcome, reason = run_case(op.op, sample, other, False, op.name in UNWRITTEN)
            except Unsupported:
                emit({"skip": key})
                continue
            emit({**case, "outcome": outcome, "reason": reason})


def main() -> None:
    """Reads {"ops", "every", "first", "most", "skip"} from standard input."""
    order = json.load(sys.stdin)
    wanted, skip = set(order["ops"]), set(order["skip"])
    out = sys.stdout
    sys.stdout = sys.stderr
    count = order["first"] - 1

    def take() -> bool:
        nonlocal count
        count += 1
        return count % order["every"] == 0

    def emit(line: dict[str, Any]) -> None:
        print(json.dumps(line), file=out, flush=True)

    warnings.simplefilter("ignore")
    for op in op_db:
        if operator_name(op) in wanted:
            sweep_operator(op, take, order.get("most"), emit, skip)
            emit({"done": operator_name(op)})


if __name__ == "__main__":
    main()
