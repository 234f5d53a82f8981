"""A captured step, whatever captured it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from benchmark.case import Outputs


def _nothing() -> None:
    pass


@dataclass
class Replay:
    """A captured step: `run` replays it, `outputs` are the tensors it writes, `steps` counts what it holds by kind.

    `wait` waits for what the device's own synchronization does not know of; calls named by `nested` are not counted.
    """

    run: Callable[[], object]
    outputs: Outputs
    steps: dict[str, int] = field(default_factory=dict)
    wait: Callable[[], None] = _nothing
    nested: tuple[str, ...] = ()


class NotRun(Exception):
    """Why a mode is not there."""
