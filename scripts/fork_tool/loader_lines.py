"""Puts the loader of the Mac's library into the wheel's torch/__init__.py."""

from __future__ import annotations

from fork_tool.errors import ForkToolError

_IMPORT = "from torch._C import *  # noqa: F403\n"


def with_loader(text: str) -> str:
    """Returns torch/__init__.py with a line before and a line after each place where it imports `torch._C`.

    Raises ForkToolError if the file has no such place, or has the lines already.
    """
    if "_mps_graph_loader" in text:
        raise ForkToolError("torch/__init__.py calls the loader of torch.mps's graphs already: take the official file.")
    lines = text.splitlines(keepends=True)
    places = [index for index, line in enumerate(lines) if line.lstrip() == _IMPORT]
    if not places:
        raise ForkToolError("torch/__init__.py imports torch._C in no place that the loader knows: look at the base.")
    for index in reversed(places):
        indent = lines[index][: -len(lines[index].lstrip())]
        # The library must be there before torch._C: its import asks whether there is an MPS device.
        before = "from torch import _mps_graph_loader; _mps_graph_loader.take_over()  # noqa: E702\n"
        lines[index : index + 1] = [indent + before, lines[index], f"{indent}_mps_graph_loader.bind()\n"]
    return "".join(lines)
