"""The series as it lies in this repository: order, entries and overlay together."""

from __future__ import annotations

from collections.abc import Callable

from fork_tool.base.checkout import Checkout, open_checkout
from fork_tool.base.pin import WorkingCopy
from fork_tool.common.errors import ForkToolError
from fork_tool.common.git import ADDRESS, AUTHOR, Git
from fork_tool.series.entries import Entry, read_entry
from fork_tool.series.order import parse_series, SeriesFile
from fork_tool.series.overlay import OverlayFile, read_overlay
from fork_tool.series.stack import build_stack, Stack


class Project(WorkingCopy):
    """One working copy of this repository, with the series in it."""

    def open_checkout(self) -> Checkout:
        return open_checkout(self.layout.checkout, self.pin, self.layout.shown(self.layout.checkout))

    def series(self) -> SeriesFile:
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
        return [read_entry(self.layout.patches, name) for name in self.series().names]

    def overlay_file(self, path: str, entry: str) -> OverlayFile:
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
