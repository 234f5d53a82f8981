"""Whether a replay that gave other bits than eager is as near to it as eager is to itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch


def as_near_as_eager_to_itself(
    replayed: Sequence[torch.Tensor],
    expected: Sequence[torch.Tensor],
    eager: Callable[[], Sequence[torch.Tensor]],
    runs: int,
) -> bool:
    """Kernels that add atomically do so in any order: `eager` gives such results as `expected` once more.

    It is called until it was as far from `expected` as the replay is, `runs` times at most.
    """
    apart = [distance(*pair) for pair in zip(replayed, expected)]
    spread = [0.0] * len(expected)
    for _ in range(runs):
        spread = [max(before, distance(*pair)) for before, pair in zip(spread, zip(eager(), expected))]
        if all(ours <= 8 * eagers for ours, eagers in zip(apart, spread)):
            return True
    return False


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest difference of two elements; endless where only one is NaN."""
    a, b = (t.cpu().resolve_conj().resolve_neg().to(torch.complex128) for t in (a, b))
    apart = torch.where((a == b) | ((a != a) & (b != b)), 0.0, (a - b).abs().nan_to_num(torch.inf))
    return float(apart.max()) if apart.numel() else 0.0
