"""Whether a replay that gave other bits than eager is as near to it as eager is to itself, element by element."""

from collections.abc import Callable, Sequence

import torch

# How much farther than eager's runs are from each other a replay may be: they are a few draws of many orders.
TIMES = 8


def as_near_as_eager_to_itself(
    replayed: Sequence[torch.Tensor],
    expected: Sequence[torch.Tensor],
    eager: Callable[[], Sequence[torch.Tensor]],
    runs: int,
) -> bool:
    """Kernels that add atomically do so in any order: `eager` gives such results as `expected` once more.

    It is called until each element of `expected` was at least an eighth as far from that of another run as the replay's
    is, `runs` times at most. An element that is a number in one and none in the other is never near.
    """
    if len(replayed) != len(expected) or any(a.shape != b.shape for a, b in zip(replayed, expected)):
        return False
    apart = [distances(*pair) for pair in zip(replayed, expected)]
    if any(bool(each.isinf().any()) for each in apart):
        return False
    spread = [torch.zeros_like(each) for each in apart]
    for _ in range(runs):
        again = [distances(*pair) for pair in zip(eager(), expected)]
        # a run that gives no number, or an endless one, measures nothing
        spread = [torch.maximum(before, each.nan_to_num(posinf=0.0)) for before, each in zip(spread, again)]
        if all(bool((ours <= TIMES * eagers).all()) for ours, eagers in zip(apart, spread)):
            return True
    return False


def distances(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """How far each two elements are from each other, as float64 on the host; endless where only one is NaN."""
    a, b = (t.detach().cpu().resolve_conj().resolve_neg().to(torch.complex128) for t in (a, b))
    return torch.where((a == b) | ((a != a) & (b != b)), 0.0, (a - b).abs().nan_to_num(torch.inf, torch.inf))
