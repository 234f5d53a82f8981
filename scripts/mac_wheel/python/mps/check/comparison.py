"""One comparison: a function is captured on some inputs, replayed on others, and each time compared with eager."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

Tensors = list[torch.Tensor]
# Written over the outputs before each replay.
GARBAGE = 0x5A
REPLAYS = 2
# The most units in the last place of the largest element that count as rounding: Apple compiles executables in its own
# way, and MPSGraph picks matrix multiplications at run time.
ULPS = 64
KINDS = ("kernels", "graph_runs", "copies", "fills", "kernel_objects", "host_refreshes")


@dataclass
class Case:
    """A function of the device's tensors.

    Attributes:
        name: what is shown.
        inputs: returns new inputs on the CPU, other ones at each call.
        function: takes them on the device and returns its results; it may change the inputs.
        kinds: the kinds of steps that it is about, as ``MPSGraph.stats()`` names them: each must be recorded.
        tolerance: 0 for the same bits; else the largest difference, absolute and relative.
    """

    name: str
    inputs: Callable[[], Tensors]
    function: Callable[..., Any]
    kinds: tuple[str, ...] = ()
    tolerance: float = 0.0


@dataclass
class Outcome:
    """What came of a case.

    Attributes:
        result: ``equal``, ``differs by rounding``, ``different``, ``nothing shown`` or ``error``.
        reason: why, in a sentence; empty if equal.
        steps: how many of each kind a replay encodes.
        difference: the largest one, absolute.
    """

    name: str
    result: str
    reason: str = ""
    steps: dict[str, int] = field(default_factory=dict)
    difference: float = 0.0


def _tensors(value: Any) -> Tensors:
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for each in value for tensor in _tensors(each)]


def _host(tensors: Tensors) -> Tensors:
    # a copy also where the tensor is on the CPU already
    return [tensor.detach().to("cpu", copy=True) for tensor in tensors]


def _same(left: Tensors, right: Tensors, tolerance: float) -> bool:
    return len(left) == len(right) and all(
        a.shape == b.shape
        and a.dtype == b.dtype
        and (torch.equal(a, b) if tolerance == 0 else torch.allclose(a, b, tolerance, tolerance, equal_nan=True))
        for a, b in zip(left, right)
    )


def _same_up_to_rounding(left: Tensors, right: Tensors) -> bool:
    def close(a: torch.Tensor, b: torch.Tensor) -> bool:
        if torch.equal(a, b):
            return True
        if a.shape != b.shape or a.dtype != b.dtype or not a.is_floating_point():
            return False
        return bool((a - b).abs().max() <= ULPS * torch.finfo(a.dtype).eps * b.abs().max())

    return len(left) == len(right) and all(map(close, left, right))


def _overwrite(results: Tensors, inputs: Tensors) -> None:
    kept = {tensor.untyped_storage().data_ptr() for tensor in inputs}
    for result in results:
        storage = result.untyped_storage()
        if storage.data_ptr() not in kept:
            torch.empty(0, dtype=torch.uint8, device=result.device).set_(storage).fill_(GARBAGE)


def compare(case: Case) -> Outcome:
    """Capture the case once, replay it on new inputs, and compare results and inputs with eager's.

    A case counts as ``nothing shown`` if eager gives on the new inputs what it gave on the old ones, or if memory that
    was overwritten already holds eager's values before the replay.
    """
    try:
        return _compare(case)
    except Exception as error:  # a report says what failed and goes on
        return Outcome(case.name, "error", f"{type(error).__name__}: {error}".splitlines()[0])


def _compare(case: Case) -> Outcome:
    mps: Any = torch.mps
    static = [tensor.to("mps") for tensor in case.inputs()]
    case.function(*[tensor.clone() for tensor in static])  # what is done once is done before the capture
    graph = mps.MPSGraph()
    with mps.graph(graph):
        results = _tensors(case.function(*static))
    steps = {kind: count for kind, count in graph.stats().items() if kind in KINDS and count}
    lacking = [kind for kind in case.kinds if kind not in steps]
    if lacking:
        return Outcome(case.name, "nothing shown", f"no {', '.join(lacking)} were recorded", steps)
    difference = 0.0
    result = "equal"
    for _ in range(REPLAYS):
        before = _host([*results, *static])
        fresh = case.inputs()
        eager = [tensor.to("mps") for tensor in fresh]
        state = mps.get_rng_state()
        expected = _host([*_tensors(case.function(*eager)), *eager])
        for tensor, value in zip(static, fresh):
            tensor.copy_(value)
        _overwrite(results, static)
        mps.set_rng_state(state)
        if any(_same(there, expected, case.tolerance) for there in (before, _host([*results, *static]))):
            return Outcome(case.name, "nothing shown", "eager gives what was there before the replay", steps)
        graph.replay()
        found = _host([*results, *static])
        difference = max(difference, _distance(found, expected))
        if not _same(found, expected, case.tolerance):
            result = "differs by rounding" if _same_up_to_rounding(found, expected) else "different"
            if result == "different":
                break
    return Outcome(case.name, result, "" if result == "equal" else f"by up to {difference:.3g}", steps, difference)


def _distance(left: Tensors, right: Tensors) -> float:
    return max((float((a.double() - b.double()).abs().max()) for a, b in zip(left, right) if a.numel()), default=0.0)
