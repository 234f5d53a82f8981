"""The commands for the base: `fetch`, and `clean`, which removes what was built on it."""

from __future__ import annotations

from pathlib import Path

import click

from fork_tool.base import fetch as fetch_module
from fork_tool.base.working_copy import WorkingCopy
from fork_tool.common.console import say
from fork_tool.common.files import remove
from fork_tool.common.processes import exclusive


@click.command()
@click.option(
    "--checkout",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Use this git checkout of PyTorch instead of fetching one.",
)
@click.option(
    "--source",
    type=click.Choice(["auto", *fetch_module.SOURCES]),
    default="auto",
    show_default=True,
    help="Where to get the base from.",
)
@click.pass_obj
def fetch(project: WorkingCopy, checkout: Path | None, source: str) -> None:
    """Get PyTorch's source into build/pytorch."""
    sources = fetch_module.SOURCES if source == "auto" else (source,)
    with exclusive(project.layout):
        new = fetch_module.fetch(project, checkout, sources)
    place = project.layout.shown(project.layout.checkout)
    say(f"{place} {'is now' if new else 'was already'} a checkout of PyTorch {project.pin.tag}.")


@click.command()
@click.option("--checkout", is_flag=True, help="Remove build/pytorch too, with every commit in it.")
@click.pass_obj
def clean(project: WorkingCopy, checkout: bool) -> None:
    """Remove all builds; the checkout stays without --checkout."""
    layout = project.layout
    # The last one has the resolved conflicts of a rebase that is under way.
    kept = (layout.checkout, layout.base_checkout, layout.rebase_checkout)
    with exclusive(layout):
        for path in sorted(layout.build.iterdir()):
            if path.name != ".lock" and (checkout or path not in kept):
                remove(path)
                say(f"removed {layout.shown(path)}")
