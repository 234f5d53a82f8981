"""The series as it lies in this repository: order, patches and overlay together."""

from collections.abc import Callable

from fork_tool.base.checkout import Checkout, open_checkout
from fork_tool.base.pin import WorkingCopy
from fork_tool.common.git import ADDRESS, AUTHOR, Git
from fork_tool.series.order import read_series, SeriesFile
from fork_tool.series.overlay import OverlayFile, read_overlay
from fork_tool.series.patches import Patch, read_patch
from fork_tool.series.stack import build_stack, Stack


class Project(WorkingCopy):
    """One working copy of this repository, with the series in it."""

    def open_checkout(self) -> Checkout:
        return open_checkout(self.layout.checkout, self.pin, self.layout.shown(self.layout.checkout))

    def series(self) -> SeriesFile:
        return read_series(self.layout.series, self.layout.shown(self.layout.series))

    def patches(self) -> list[Patch]:
        return [read_patch(self.layout.patches, name) for name in self.series().names]

    def overlay_file(self, path: str, patch: str) -> OverlayFile:
        return read_overlay(self.layout.overlay, path, patch)

    def stack(
        self,
        git: Git,
        base: str,
        message: Callable[[Patch], str] = Patch.message,
        author: tuple[str, str] = (AUTHOR, ADDRESS),
    ) -> Stack:
        """The series as commits on `base`."""
        return build_stack(git, self.pin, base, self.patches(), self.overlay_file, message, author)
