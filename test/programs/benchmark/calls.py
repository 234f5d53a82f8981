"""Sorts the simulator's counts of framework calls into kinds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

# The first pattern that is found in a selector gives its kind.
_KINDS = (
    ("graph runs", r"\[MPSGraph(Executable)? (encode|run)"),
    ("dispatches", r" dispatchThread| executeCommandsInBuffer"),
    ("set pipeline", r" setComputePipelineState:"),
    ("set bytes", r"(ComputeCommandEncoder|Encoder) setBytes:"),
    ("set buffer", r"ComputeCommandEncoder setBuffer"),
    ("barriers", r" memoryBarrier"),
    ("copies and fills", r" copyFromBuffer:| fillBuffer:"),
    ("encoders opened", r" (blitCommandEncoder|computeCommandEncoder)"),
    ("encoders ended", r" endEncoding"),
    ("tensor data", r"\[MPSGraphTensorData |\[MPSNDArray"),
    ("commits", r" commit"),
)


def kind_of(selector: str) -> str:
    """The kind of a call like ``-[MTLCommandBuffer commit]``."""
    return next((kind for kind, pattern in _KINDS if re.search(pattern, selector)), "other")


def by_kind(counts: Mapping[str, int]) -> dict[str, int]:
    """Calls by kind, and ``total``."""
    result: Counter[str] = Counter()
    for selector, count in counts.items():
        result[kind_of(selector)] += count
    return dict(sorted(result.items())) | {"total": sum(counts.values())}
