"""What a capture refuses, and what ends a block with an exception."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from patched import mps


class Interruption(Exception):
    """An exception of the program's own."""


# What a refusal acts on: a tensor on the device and the graph that is being captured.
Refusal = Callable[[torch.Tensor, Any], object]


def _profile(a: torch.Tensor, graph: Any) -> None:
    mps.profiler.start()


def _draw_unregistered(a: torch.Tensor, graph: Any) -> None:
    torch.rand(3, device="mps", generator=torch.Generator("mps"))


def _misuse(a: torch.Tensor, graph: Any) -> None:
    torch.mm(torch.ones(2, 3, device="mps"), torch.ones(2, 3, device="mps"))


# These run if the capture freezes host reads.
READS: dict[str, Refusal] = {
    "item": lambda a, graph: (a.float() * 2).sum().item(),
    "list": lambda a, graph: a.tolist(),
    "unique": lambda a, graph: torch.unique(a.float()),
    "nonzero": lambda a, graph: a.nonzero(),
}
# They raise before anything is done, and a block that catches that goes on.
REFUSALS: dict[str, Refusal] = {
    **READS,
    "misuse": _misuse,
    "fallback": lambda a, graph: torch.linalg.svd(torch.ones(2, 2, device="mps")),
    "unregistered": _draw_unregistered,
    "seed": lambda a, graph: mps.manual_seed(3),
    "state": lambda a, graph: mps.set_rng_state(mps.get_rng_state()),
    "event": lambda a, graph: mps.Event().record(),
    "profiler": _profile,
    "nested": lambda a, graph: mps.MPSGraph().capture_begin(),
    "again": lambda a, graph: graph.capture_begin(),
    "replay": lambda a, graph: graph.replay(),
    "reset": lambda a, graph: graph.reset(),
    "registration": lambda a, graph: graph.register_generator_state(torch.Generator("mps")),
}
# With the exception that leaves the block. "moved" is found out when the capture ends.
ENDINGS: dict[str, type[BaseException]] = {
    "own": Interruption,
    "interrupt": KeyboardInterrupt,
    "moved": RuntimeError,
    **dict.fromkeys(REFUSALS, RuntimeError),
}
