"""Links the MPSGraph runs of every capture of a program, as with link=True.

Works by being imported: as a plugin of pytest, ``-p mps_linked``.
"""

from typing import Any

import torch

mps: Any = torch.mps
_made = mps.MPSGraph.__init__


def _linked(graph: Any, keep_graph: bool = False, link: bool = False, **options: Any) -> None:
    _made(graph, keep_graph, True, **options)


mps.MPSGraph.__init__ = _linked
