"""Draws programs: captures of blocks of steps, and what happens between and after them.

A step is a name and two numbers by which it picks its operands among what
there is. Every sequence of steps is a program that runs, so that any part of
one that fails can be left out while hypothesis looks for a smaller one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from tensor_operations import DRAWS, DRAWS_IN_PLACE, IN_PLACE, MAKING, VIEWS
from torch import mps

Step = tuple[str, int, int]


class Interruption(Exception):
    """An exception of the program's own."""


# What a refusal acts on: a tensor on the device and the graph that is being captured.
Refusal = Callable[[torch.Tensor, Any], object]


# These run if the capture freezes host reads.
READS: dict[str, Refusal] = {
    "item": lambda a, graph: (a.float() * 2).sum().item(),
    "list": lambda a, graph: a.tolist(),
    "unique": lambda a, graph: torch.unique(a.float()),
    "nonzero": lambda a, graph: a.nonzero(),
}
# They raise before anything is done, and the capture fails even if the block catches that.
REFUSALS: dict[str, Refusal] = {
    **READS,
    "fallback": lambda a, graph: torch.linalg.svd(torch.ones(2, 2, device="mps")),
    "made in the block": lambda a, graph: torch.rand(3, device="mps", generator=torch.Generator("mps")),
    "seed": lambda a, graph: mps.manual_seed(3),
    "state": lambda a, graph: mps.set_rng_state(mps.get_rng_state() ^ 1),
    "event": lambda a, graph: mps.Event().record(),
}
# They raise and change nothing. A block that catches that goes on.
MISUSES: dict[str, Refusal] = {
    "misuse": lambda a, graph: torch.mm(*[torch.ones(2, 3, device="mps")] * 2),
    "profiler": lambda a, graph: mps.profiler.start(),
    "nested": lambda a, graph: mps.MPSGraph().capture_begin(),
    "again": lambda a, graph: graph.capture_begin(),
    "replay": lambda a, graph: graph.replay(),
    "reset": lambda a, graph: graph.reset(),
}
CAUGHT = "caught "
# With the exception that leaves the block. "moved" and what the block catches are told when the capture ends.
ENDINGS: dict[str, type[BaseException]] = {
    "own": Interruption,
    "interrupt": KeyboardInterrupt,
    "moved": RuntimeError,
    **dict.fromkeys([*REFUSALS, *MISUSES, *(CAUGHT + name for name in REFUSALS)], RuntimeError),
}


@dataclass(frozen=True)
class Block:
    """A capture."""

    steps: tuple[Step, ...]
    # 0 a pool of its own, 1 and 2 shared ones, 3 that of another graph
    pool: int = 0
    frozen: bool = False
    # the exception that ends it, a key of ENDINGS
    ending: str = ""
    # after the exception, nothing is kept of what the block did to the names
    undone: bool = False

    @property
    def is_allowed(self) -> bool:
        """Whether what would end it runs, since the capture freezes host reads."""
        return self.frozen and self.ending.removeprefix(CAUGHT) in READS

    @property
    def fails_at_the_end(self) -> bool:
        return self.ending == "moved" or (self.ending.startswith(CAUGHT) and not self.is_allowed)


Action = Step | Block
Program = list[Action]

TENSORS = [*MAKING, *VIEWS, *IN_PLACE, *DRAWS, *DRAWS_IN_PLACE]
# Copies from and to the host, what backward passes do, lifetimes.
OTHERS = ["from_host", "copy_host", "host_number", "load", "item", "cpu", "backward", "descend", "free"]
# May stand in a block and outside of it.
CONTROLS = ["replay", "reset", "drop", "empty_cache", "executables"]
BETWEEN = ["hosts", "check", "seed", "state"]

_small = st.integers(0, 15)


def _steps(*weighted: tuple[list[str], int]) -> st.SearchStrategy[Step]:
    names = [name for several, weight in weighted for name in several * weight]
    return st.tuples(st.sampled_from(names), _small, _small)


# Most are plain operations; the rest is there often enough to meet each other.
_in_block = _steps((TENSORS, 1), (OTHERS, 2), (["free", "replay"], 5), (CONTROLS, 1), (["refused"], 2))
_between = _steps((TENSORS, 1), (OTHERS, 1), (CONTROLS, 2), (BETWEEN, 3), (["free", "load", "hosts"], 5))
_replay = st.tuples(st.just("replay"), _small, _small)


def _blocks(endings: st.SearchStrategy[str]) -> st.SearchStrategy[Block]:
    return st.builds(
        Block,
        steps=st.lists(_in_block, min_size=1, max_size=14).map(tuple),
        pool=st.integers(0, 3),
        frozen=st.booleans(),
        ending=endings,
        undone=st.booleans(),
    )


_whole = _blocks(st.just(""))
_broken = _blocks(st.sampled_from(list(ENDINGS)))
_actions = st.lists(
    st.one_of(_replay, _between, _whole, _replay, _between, _replay, _whole, _broken), min_size=4, max_size=20
)

programs: st.SearchStrategy[Program] = st.tuples(_whole, _actions).map(lambda drawn: [drawn[0], *drawn[1]])
