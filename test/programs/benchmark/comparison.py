"""Compares what a replay leaves with what eager leaves, on inputs that the capture has not seen."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmark.case import Case


@dataclass(frozen=True)
class Tolerance:
    """What a replay may differ by: of the largest value of a result, and of the length of the step's change of all state,
    in which a gradient that is all rounding may point anywhere."""

    of_results: float
    of_state: float


EXACT = Tolerance(0.0, 0.0)
# A device may sum in another order.
DEVICE = Tolerance(2e-3, 0.1)


@dataclass(frozen=True)
class Verdict:
    """How a replay came out: `difference` is the largest of a result as a part of its largest value, or that of the state
    as a part of its change, whichever is larger."""

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


def _length(pairs: Sequence[tuple[Tensor, Tensor]]) -> float:
    return float(sum(((one.double() - other.double()) ** 2).sum().item() for one, other in pairs) ** 0.5)


def _difference_of_state(expected: Sequence[Tensor], got: Sequence[Tensor], before: Sequence[Tensor]) -> float:
    if all(torch.equal(one, other) for one, other in zip(expected, got)):
        return 0.0
    floating = [i for i, one in enumerate(expected) if one.is_floating_point()]
    if any(not torch.equal(one, got[i]) for i, one in enumerate(expected) if i not in floating):
        return float("inf")
    difference = _length([(expected[i], got[i]) for i in floating])
    change = _length([(expected[i], before[i]) for i in floating])
    return float("inf") if difference != difference else difference / max(change, 1e-30)


class Comparison:
    """Eager's results on new inputs, and the state from which they came."""

    def __init__(self, case: Case, run: Callable[[], Sequence[Tensor]], seed: int) -> None:
        """`run` runs the step eagerly."""
        self._case = case
        if case.start:
            case.start()
        case.fill(seed)
        self._before = [tensor.detach().clone() for tensor in _kept(case)]
        outputs = run()
        self._outputs = [tensor.detach().cpu() for tensor in outputs]
        self._state = [tensor.detach().cpu() for tensor in _kept(case)]
        for tensor in (*self._outputs, *self._state):
            if tensor.is_floating_point() and not tensor.isfinite().all():
                raise ValueError("eager's own results are no finite numbers, so that nothing can be compared")
        changed = any(not torch.equal(now, before) for now, before in zip(_kept(case), self._before))
        if not outputs and not changed:
            raise ValueError("the step gives and changes nothing, so that nothing can be compared")

    @torch.no_grad()
    def _restore(self) -> None:
        for tensor, before in zip(_kept(self._case), self._before):
            tensor.copy_(before)

    def verdict(self, run: Callable[[], object], outputs: Sequence[Tensor], tolerance: Tolerance) -> Verdict:
        """Bring back the state, overwrite the outputs, replay, and compare everything."""
        self._restore()
        _poison(outputs)
        run()
        results = [_difference(one, other.detach().cpu()) for one, other in zip(self._outputs, outputs)]
        difference = max(results, default=0.0)
        of_state = _difference_of_state(
            self._state, [tensor.detach().cpu() for tensor in _kept(self._case)], [one.cpu() for one in self._before]
        )
        if difference <= tolerance.of_results and of_state <= tolerance.of_state:
            return Verdict(True, max(difference, of_state))
        return Verdict(
            False,
            max(difference, of_state),
            f"differs from eager: results by {difference:g} of the largest value, state by {of_state:g} of its change",
        )
