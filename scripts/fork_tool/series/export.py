"""`export`: the series as `git format-patch` files, as a reviewer upstream would get them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from fork_tool.base.checkout import open_checkout
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import new_directory
from fork_tool.common.git import ADDRESS, AUTHOR
from fork_tool.series.entries import Entry
from fork_tool.series.project import Project

# git takes every bracket in front of a title for a mark of the mail's, unless it is told otherwise.
TAKEN_BY = "git am --keep-non-patch build/export/*.patch"


def export_series(project: Project, author: tuple[str, str] = (AUTHOR, ADDRESS)) -> list[Path]:
    """Replace build/export by what patches and overlay give; the checkout is only read."""
    layout = project.layout
    checkout = open_checkout(layout.checkout, project.pin, layout.shown(layout.checkout))
    # The trailer that `refresh` needs says nothing to upstream.
    stack = project.stack(checkout.git, checkout.base, partial(Entry.message, trailer=False), author)
    if not stack.layers:
        raise ForkToolError("patches/series lists no entry: there is nothing to export.")
    options = (
        *("--quiet", "--zero-commit", "--no-signature", "--no-cover-letter", "--no-thread", "--no-attach"),
        *("--no-to", "--no-cc", "--unified=3", "--no-renames"),
    )
    with new_directory(layout.export) as new:
        checkout.git.run("format-patch", *options, "--output-directory", str(new), f"{checkout.base}..{stack.tip}")
    return sorted(layout.export.iterdir())
