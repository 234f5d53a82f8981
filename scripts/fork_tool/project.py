"""The series as it lies in this repository: order, entries and overlay together."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from fork_tool.entries import Entry, read_entry
from fork_tool.errors import ForkToolError
from fork_tool.git import ADDRESS, AUTHOR, Git
from fork_tool.overlay import OverlayFile, read_overlay
from fork_tool.paths import Layout
from fork_tool.pin import load_pin, Pin
from fork_tool.series import parse_series, SeriesFile
from fork_tool.stack import build_stack, Stack


class Project:
    """One working copy of this repository."""

    def __init__(self, layout: Layout):
        self.layout = layout

    @cached_property
    def pin(self) -> Pin:
        return load_pin(self.layout.pin)

    def forget_pin(self) -> None:
        """The pin file was rewritten."""
        self.__dict__.pop("pin", None)

    def series(self) -> SeriesFile:
        """The order of the entries."""
        shown = self.layout.shown(self.layout.series)
        try:
            return parse_series(self.layout.series.read_text("utf-8"), shown)
        except FileNotFoundError:
            raise ForkToolError(f"{shown} is missing: bring it back with `git checkout -- {shown}`.") from None
        except UnicodeDecodeError:
            raise ForkToolError(
                f"{shown} is corrupted: it is not UTF-8 text; bring it back with `git checkout -- {shown}`."
            ) from None

    def entries(self) -> list[Entry]:
        """The entries in order."""
        return [read_entry(self.layout.patches, name) for name in self.series().names]

    def overlay_file(self, path: str, entry: str) -> OverlayFile:
        """An overlay file that `entry` claims."""
        return read_overlay(self.layout.overlay, path, entry)

    def stack(
        self,
        git: Git,
        base: str,
        message: Callable[[Entry], str] = Entry.message,
        author: tuple[str, str] = (AUTHOR, ADDRESS),
    ) -> Stack:
        """The series as commits on `base`."""
        return build_stack(git, self.pin, base, self.entries(), self.overlay_file, message, author)
