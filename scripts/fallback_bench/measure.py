"""Measuring one operator with one shape and dtype, in a process whose fallback is on or off for its whole life."""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from fallback_bench.cases import Case, Shape
from fallback_bench.fallbacks import first_line, missing_operator, with_fallbacks

FALLS_BACK, UNASKED, NATIVE, FAILS = "falls back", "falls back unasked", "native", "fails"
UNKNOWN = "this torch has no torch.mps.graph_capture"
_FEWEST, _MOST = 3, 200


def check(case: Case, shape: Shape, dtype: torch.dtype) -> dict[str, Any]:
    """Whether the operator falls back, by running it where it may not; some do all the same."""
    inputs = [tensor.to("mps") for tensor in case.inputs(shape, dtype)]
    try:
        _, seen = with_fallbacks(lambda: case.call(*inputs))
        torch.mps.synchronize()
    except (RuntimeError, TypeError, ValueError) as problem:
        missing = missing_operator(problem)
        if missing is None:
            return {"verdict": FAILS, "problem": first_line(problem)}
        return {"verdict": FALLS_BACK, "missing": [missing]}
    return {"verdict": UNASKED if seen else NATIVE, "missing": sorted(set(seen))}


def measure(case: Case, shape: Shape, dtype: torch.dtype, seconds: float) -> dict[str, Any]:
    """Medians on the CPU and on MPS with the fallback, and whether a capture refuses the operator."""
    inputs = case.inputs(shape, dtype)
    where = "CPU"
    try:
        case.call(*inputs)
        where = "MPS"
        # The inputs lie on the device, where a program has them: the way to the CPU and back is part of the price.
        moved = [tensor.to("mps") for tensor in inputs]
        _, seen = with_fallbacks(lambda: case.call(*moved))
        torch.mps.synchronize()
    except (RuntimeError, TypeError, ValueError) as problem:
        return {"problem": f"on {'the ' if where == 'CPU' else ''}{where}: {first_line(problem)}"}

    def on_device() -> None:
        case.call(*moved)
        torch.mps.synchronize()

    cpu, mps = _times((lambda: case.call(*inputs), on_device), seconds)
    return {
        "cpu": statistics.median(cpu),
        "mps": statistics.median(mps),
        "spread": max(_spread(cpu), _spread(mps)),
        "repeats": len(cpu),
        "fallbacks": seen,
        "capture": capture_error(lambda: case.call(*moved)),
    }


def capture_error(call: Callable[[], Any]) -> str | None:
    capture = getattr(torch.mps, "graph_capture", None)
    if capture is None:
        return UNKNOWN
    try:
        with capture():
            call()
    except (RuntimeError, TypeError, ValueError) as problem:
        return first_line(problem).removeprefix("torch.mps graph capture: ")
    return None


def _times(calls: Sequence[Callable[[], Any]], seconds: float) -> list[list[float]]:
    """Times of the calls, in turns, so that what else the machine does falls on all of them; one round is not counted."""
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()
    end = time.perf_counter() + seconds
    while len(times[0]) < _FEWEST or (len(times[0]) < _MOST and time.perf_counter() < end):
        for call, own in zip(calls, times):
            start = time.perf_counter()
            call()
            own.append(time.perf_counter() - start)
    return times


def _spread(times: list[float]) -> float:
    """The range of the middle half, as a part of the median."""
    low, middle, high = statistics.quantiles(times, n=4)
    return (high - low) / middle if middle else 0.0
