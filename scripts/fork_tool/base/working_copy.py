"""One working copy of this repository, and the base that it is pinned to."""

from __future__ import annotations

from functools import cached_property

from fork_tool.base.pin import load_pin, Pin
from fork_tool.paths import Layout


class WorkingCopy:
    """Where everything lies, and what base.toml says."""

    def __init__(self, layout: Layout):
        self.layout = layout

    @cached_property
    def pin(self) -> Pin:
        return load_pin(self.layout.pin)

    def forget_pin(self) -> None:
        """The pin file was rewritten."""
        self.__dict__.pop("pin", None)
