"""Compares what a replay leaves with what eager leaves, on inputs that the capture has not seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmark.case import Case

# Of the largest value: what a device may differ by when it sums in another order. The simulator may not.
TOLERANCE = 2e-3


@dataclass(frozen=True)
class Verdict:
    """How a replay came out: `difference` is the largest one, as a part of the largest value of its tensor."""

    equal: bool
    difference: float
    problem: str = ""


def _kept(case: Case) -> list[Tensor]:
    return [*(one.tensor for one in case.inputs), *case.state()]


@torch.no_grad()
def _poison(outputs: Sequence[Tensor]) -> None:
    for output in outputs:
        output.fill_(float("nan") if output.is_floating_point() else -7)


def _difference(one: Tensor, other: Tensor) -> float:
    if torch.equal(one, other):
        return 0.0
    if not one.is_floating_point():
        return float("inf")
    largest = one.abs().max().item()
    difference = (one - other).abs().max().item()
    # NaN is what nothing was written to
    return float("inf") if difference != difference else difference / max(largest, 1e-30)


class Comparison:
    """Eager's results on new inputs, and the state from which they came."""

    def __init__(self, case: Case, run: Callable[[], Sequence[Tensor]], seed: int) -> None:
        """`run` runs the step eagerly.

        Raises:
            ValueError: if the results are no finite numbers, or if nothing would differ had nothing been run.
        """
        self._case = case
        if case.start:
            case.start()
        case.fill(seed)
        self._before = [tensor.detach().clone() for tensor in _kept(case)]
        outputs = run()
        self._expected = [tensor.detach().cpu() for tensor in (*outputs, *_kept(case))]
        for tensor in self._expected:
            if tensor.is_floating_point() and not tensor.isfinite().all():
                raise ValueError("eager's own results are no finite numbers, so that nothing can be compared")
        changed = any(not torch.equal(now, before) for now, before in zip(_kept(case), self._before))
        if not outputs and not changed:
            raise ValueError("the step gives and changes nothing, so that nothing can be compared")

    @torch.no_grad()
    def _restore(self) -> None:
        for tensor, before in zip(_kept(self._case), self._before):
            tensor.copy_(before)

    def verdict(self, run: Callable[[], object], outputs: Sequence[Tensor], exact: bool) -> Verdict:
        """Bring back the state, overwrite the outputs, replay, and compare everything."""
        self._restore()
        _poison(outputs)
        run()
        got = [tensor.detach().cpu() for tensor in (*outputs, *_kept(self._case))]
        difference = max((_difference(one, other) for one, other in zip(self._expected, got)), default=0.0)
        if difference <= (0.0 if exact else TOLERANCE):
            return Verdict(True, difference)
        return Verdict(False, difference, f"differs from eager by {difference:g} of the largest value")
