"""`scripts/mpsfork sweep --compiled`: each operator under torch.compile(backend="mpsgraphs"), with inputs in four layouts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from cases import Case, EAGER_RUNS, forget_earlier_errors, forward_and_backward, raised_errors, shapes
from mps_capture_rounding import as_near_as_eager_to_itself
from sweep_exceptions import EAGER_LACKS, first_line, NotReplayed, sort_exception
from sweep_inputs import bytes_of, copies, DEVICE, host_values, other_contents, same, Tensors, tensors_of, write_all
from sweep_report import GENERATOR_DIFFERS, INPUTS_DIFFER, RESULTS_DIFFER
from torch.testing import assert_close
from torch.testing._internal import common_methods_invocations
from torch.utils import _pytree as pytree

BACKEND = "mpsgraphs"
# Dynamo skips the database's own way to seed, and the function in it.
common_methods_invocations.wrapper_set_seed = lambda function, *args, **kwargs: function(*args, **kwargs)


def channels_last(tensor: torch.Tensor) -> torch.Tensor:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return tensor.contiguous(memory_format=formats[tensor.dim()]) if tensor.dim() in formats else tensor


def transposed(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.transpose(-1, -2).contiguous().transpose(-1, -2) if tensor.dim() > 1 else tensor


def sliced(tensor: torch.Tensor) -> torch.Tensor:
    """Every second element of the last dimension of a larger tensor, from its second one on."""
    if not tensor.dim():
        return tensor
    room = tensor.new_zeros([*tensor.shape[:-1], 2 * tensor.shape[-1] + 1])
    return room[..., 1::2].copy_(tensor)


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "as drawn": lambda tensor: tensor,
    "channels last": channels_last,
    "transposed": transposed,
    "sliced": sliced,
}


def laid_out(tensors: Tensors, layout: str) -> Tensors:
    """The same values in another layout."""
    moved = [LAYOUTS[layout](t.detach()) if t.device.type == DEVICE else t.detach() for t in tensors]
    return [m.requires_grad_(t.requires_grad) for m, t in zip(moved, tensors)]


class Call:
    """What one call made: results and gradients, the inputs afterwards, and the metadata of the results."""

    def __init__(self, case: Case, function: Callable[..., Any], inputs: Tensors, state: torch.Tensor) -> None:
        self.metadata: list[tuple[Any, ...]] = []
        self.before, self.after = copies(inputs), inputs

        def call(*args: Any, **kwargs: Any) -> Any:
            made = function(*args, **kwargs)
            self.metadata = [metadata(leaf) for leaf in pytree.tree_leaves(made) if isinstance(leaf, torch.Tensor)]
            return made

        torch.mps.set_rng_state(state)
        with torch.set_grad_enabled(case.gradients):
            self.results = forward_and_backward(call, case.sample, inputs, case.gradients)
        torch.mps.synchronize()
        self.values = host_values([*self.results, *self.after, torch.mps.get_rng_state()])


def metadata(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What a program can ask of a result; strides only where they matter."""
    strides = [s for s, size in zip(tensor.stride(), tensor.shape) if size > 1] if tensor.numel() else []
    return tensor.requires_grad, strides


def run_compiled(case: Case, layout: str) -> tuple[str, str]:
    """Outcome and reason of three compiled calls: with the values of the sample, with others, and with the first again."""
    originals = laid_out(tensors_of(case.sample), layout)
    state = torch.mps.get_rng_state()
    forget_earlier_errors()
    try:
        eager = [Call(case, case.function, copies(originals), state)]
    except Exception as error:
        raise sort_exception(error, raised_errors()) from None
    if not any(t.device.type == DEVICE for t in [*originals, *eager[0].results]):
        raise NotReplayed(EAGER_LACKS, "neither takes nor gives a tensor of the device")
    way = "unchanged"
    for name, contents in other_contents(originals, case.other):
        changed = copies(originals)
        write_all(changed, contents)
        if same(host_values(changed), host_values(originals)):
            continue
        try:
            eager.append(Call(case, case.function, changed, state))
            way = name
            break
        except Exception:
            forget_earlier_errors()
    inputs = [copies(call.before) for call in (*eager, eager[0])]
    torch._dynamo.reset()
    function = case.function
    compiled = torch.compile(lambda first, *args, **kwargs: function(first, *args, **kwargs), backend=BACKEND)
    found: list[tuple[str, str]] = []
    made: Call | None = None
    for number, given in enumerate(inputs):
        expected = eager[number % len(eager)]
        try:
            # without replays, what the first call made
            if made is None or case.replay:
                made = Call(case, compiled, given, state)
        except Exception as error:
            return "wrong", f"compiled raises: {type(error).__name__}: {first_line(str(error))}"
        found.append(comparison(case, made, expected, state))
    bad = [pair for pair in found if pair[0] == "wrong"]
    if bad:
        return bad[0]
    how = how_it_ran()
    if how == "eagerly":
        return "refused", "nothing was captured"
    if len(eager) == 1:
        return "unchanged_inputs" if case.replay else "no_effect_visible", how
    if same(eager[0].values, eager[1].values):
        return "no_effect_visible", "the same with other values"
    inexact = [pair for pair in found if pair[0] != "equal"]
    return inexact[0] if inexact else ("equal", f"{way}, {how}")


def how_it_ran() -> str:
    """Whether the calls were captured, by the report of the backend."""
    reports = torch.mps.compile_report()  # type: ignore[attr-defined]
    if not any(report["captures"] for report in reports):
        return "eagerly"
    whole = all(report["captures"] and not report["splits"] and not report["eager_calls"] for report in reports)
    return "captured" if whole else "captured in part"


def comparison(case: Case, made: Call, expected: Call, state: torch.Tensor) -> tuple[str, str]:
    if shapes(made.results) != shapes(expected.results):
        return "wrong", "other shapes or types"
    for place, what in enumerate(("requires_grad", "strides")):
        if [each[place] for each in made.metadata] != [each[place] for each in expected.metadata]:
            return "wrong", f"other {what}"
    if case.unwritten:
        return "no_effect_visible", "nothing is written: shapes and types"
    if same(made.values, expected.values):
        return "equal", ""
    if not torch.equal(made.values[-1], expected.values[-1]):
        return "wrong", GENERATOR_DIFFERS
    try:
        for mine, eagers in zip(made.values, expected.values):
            assert_close(mine, eagers, equal_nan=True)
        return "equal_up_to_rounding", "other last bits than eager"
    except AssertionError:
        pass

    def eager_again() -> Tensors:
        again = copies(expected.before)
        return [*Call(case, case.function, again, state).results, *again]

    pair = [*made.results, *made.after], [*expected.results, *expected.after]
    if as_near_as_eager_to_itself(*pair, eager_again, EAGER_RUNS):
        return "equal_up_to_rounding", "eager itself gives other values from run to run"
    if not is_as_on_cpu(case, expected):
        return "explained", "eager itself is wrong: it differs from the CPU"
    count = len(made.results)
    return "wrong", INPUTS_DIFFER if same(made.values[:count], expected.values[:count]) else RESULTS_DIFFER


def in_cpu_memory(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in a copy of its whole storage: as_strided() reads what lies between the elements."""
    storage = bytes_of(tensor.detach()).cpu().untyped_storage()
    copy = torch.empty(0, dtype=tensor.dtype)
    return copy.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())  # type: ignore[call-overload]


def is_as_on_cpu(case: Case, eager: Call) -> bool:
    """Whether the CPU gives eager's results; so, too, where it does not run the case."""

    def on_cpu(first: Any, *args: Any, **kwargs: Any) -> Any:
        placed = pytree.tree_map_only(
            (str, torch.device), lambda x: "cpu" if str(x).startswith(DEVICE) else x, (args, kwargs)
        )
        return case.function(first, *placed[0], **placed[1])

    moved = [in_cpu_memory(t).requires_grad_(t.requires_grad) for t in eager.before]
    try:
        with torch.set_grad_enabled(case.gradients):
            results = forward_and_backward(on_cpu, case.sample, moved, case.gradients)
    except Exception:
        return True
    try:
        for mine, eagers in zip(host_values([*results, *moved]), eager.values):
            assert_close(mine, eagers, equal_nan=True, check_dtype=False)
        return True
    except AssertionError:
        return False


def run_layouts(case: Case) -> Iterator[dict[str, Any]]:
    """The outcomes of a sample as it was drawn, and of the other layouts that differ from it."""
    drawn = tensors_of(case.sample)
    for layout in LAYOUTS:
        moved = laid_out(drawn, layout)
        if layout != "as drawn" and all(a.stride() == b.stride() for a, b in zip(drawn, moved)):
            continue
        outcome, reason = run_compiled(case, layout)
        yield {"layout": layout, "outcome": outcome, "reason": reason}
