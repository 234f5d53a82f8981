"""How much of a callable's work on the device falls back to the CPU, for any Python callable."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from fallback_bench.fallbacks import with_fallbacks


@dataclass
class Share:
    """What was counted: operators that compute (views do not) with tensors on MPS, backward passes too."""

    operators: int = 0
    fell_back: int = 0
    seconds: float = 0.0
    fallback_seconds: float = 0.0
    by_operator: Counter[str] = field(default_factory=Counter)

    @property
    def percentage(self) -> float:
        return 100.0 * self.fell_back / self.operators if self.operators else 0.0

    @property
    def time_percentage(self) -> float:
        return 100.0 * self.fallback_seconds / self.seconds if self.seconds else 0.0


def fallback_share(call: Callable[..., Any], *arguments: Any, timed: bool = False, **named: Any) -> Share:
    """Call it once and count.

    `timed` waits for the device after each operator, so that times are each operator's own; the call as a whole takes
    longer then. Where operators may not fall back, the first that has no kernel raises NotImplementedError as always.
    """
    share = Share()
    with _Counting(share, timed):
        call(*arguments, **named)
    return share


class _Counting(TorchDispatchMode):
    def __init__(self, share: Share, timed: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._share = share
        self._timed = timed

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        start = time.perf_counter()
        result, seen = with_fallbacks(lambda: func(*args, **(kwargs or {})))
        if getattr(func, "is_view", False) or not _touches_device((args, kwargs, result)):
            return result
        if self._timed:
            torch.mps.synchronize()
        seconds = time.perf_counter() - start
        share = self._share
        share.operators += 1
        share.seconds += seconds
        if seen:
            share.fell_back += 1
            share.fallback_seconds += seconds
            share.by_operator.update(dict.fromkeys(seen, 1))
        return result


def _touches_device(values: Any) -> bool:
    return any(isinstance(leaf, torch.Tensor) and leaf.device.type == "mps" for leaf in pytree.tree_leaves(values))
