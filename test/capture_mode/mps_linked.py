"""Links the MPSGraph runs of every capture of a program, as with link=True, unless it says otherwise itself.

Works by being imported: as a plugin of pytest, ``-p mps_linked``.
"""

from __future__ import annotations

from typing import Any

import torch

_made = torch.mps.MPSGraph.__init__


def _linked(graph: torch.mps.MPSGraph, keep_graph: bool = False, link: bool = True, **options: Any) -> None:
    _made(graph, keep_graph, True, **options)


torch.mps.MPSGraph.__init__ = _linked  # type: ignore[method-assign]
