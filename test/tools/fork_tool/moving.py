"""A series of four patches, and upstreams that moved on from under it in different ways."""

import re
from collections.abc import Callable
from pathlib import Path

from fork_tool.common.git import Git
from fork_tool.paths import Layout
from fork_tool.series.project import Project
from workshop import command_git, Workshop


def lines(name: str, count: int = 30) -> str:
    return "".join(f"{name} {number}\n" for number in range(1, count + 1))


FILES: dict[str, str | bytes] = {
    "aten/Stream.mm": lines("stream"),
    "aten/Graph.mm": lines("graph"),
    "torch/mps.py": lines("python"),
    "version.txt": "0.1.0a0\n",
}
PIN_COMMENT = "# Why this base: it is the newest.\n"
DEBIAN_COMMENT = "# The same source, at Debian.\n"

Edit = Callable[[Path], None]


def put(path: str, old: str, new: str) -> Edit:
    def edit(root: Path) -> None:
        file = root / path
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new, 1))

    return edit


def moving_shop(root: Path) -> Workshop:
    """The series, applied: two patches on one file, one on another, one on a third with a new file."""
    shop = Workshop(root, FILES)
    text = shop.layout.pin.read_text()
    for old, new in (
        ('tag = "v0.1"', 'tag = "v0.1"  # a tag'),
        ("\n[upstream]", f"{PIN_COMMENT}[upstream]"),
        ("[debian]", f"{DEBIAN_COMMENT}[debian]"),
    ):
        text = text.replace(old, new)
    shop.layout.pin.write_text(text)
    shop.good("apply")
    add(
        shop,
        "recorder",
        put("aten/Stream.mm", "stream 4\n", "stream 4\nrecorded\nmiddle\nlast\n"),
        new={"aten/Recorder.h": "class Recorder;\n"},
    )
    add(
        shop,
        "cache",
        put("aten/Graph.mm", "graph 10\n", "cached 10\n"),
        put("aten/Graph.mm", "graph 20\n", "graph 20\ncached 20\n"),
    )
    add(
        shop,
        "pool",
        put("aten/Stream.mm", "stream 20\n", "pool 20\nstream 20\n"),
        put("aten/Stream.mm", "middle\n", "middle of the pool\n"),
    )
    add(
        shop,
        "python",
        put("torch/mps.py", "python 15\n", "python 15\ngraphs\n"),
        new={"torch/graphs.py": lines("new", 5)},
    )
    shop.good("refresh")
    (shop.layout.build / ".lock").touch()
    return shop


def opened(root: Path, base: str) -> Workshop:
    """A workshop that is there already."""
    shop = Workshop.__new__(Workshop)
    shop.root, shop.layout, shop.base = root, Layout(root), base
    shop.checkout = shop.layout.checkout
    shop.project, shop.git = Project(shop.layout), Git(shop.checkout)
    command_git(shop.checkout, "update-index", "-q", "--refresh")
    return shop


def add(shop: Workshop, name: str, *edits: Edit, new: dict[str, str | bytes] | None = None) -> None:
    for edit in edits:
        edit(shop.checkout)
    shop.commit(f"[MPS] Add {name}\n\nWhy {name} is there.\n\nTest Plan: pytest\n\nPatch: {name}", new)


def upstream(shop: Workshop, *edits: Edit, tag: str = "v0.2") -> str:
    """A commit of upstream's on top of the base, with a tag; the checkout is left as it was."""
    command_git(shop.checkout, "checkout", "--quiet", "--detach", shop.base)
    for edit in edits:
        edit(shop.checkout)
    commit = shop.commit("Upstream goes on")
    command_git(shop.checkout, "tag", tag)
    command_git(shop.checkout, "checkout", "--quiet", "mps-graph")
    return commit


def upstream_elsewhere(shop: Workshop, *edits: Edit) -> Path:
    """A clone whose branch main goes on from the base, at the address in base.toml."""
    remote = shop.root / "upstream"
    command_git(shop.root, "clone", "--quiet", str(shop.checkout), str(remote))
    command_git(remote, "checkout", "--quiet", "-b", "main", shop.base)
    for edit in edits:
        edit(remote)
    command_git(remote, "commit", "--quiet", "--all", "--message=Upstream goes on")
    shop.write_pin(url=f"file://{remote}")
    return remote


def resolve(file: Path, text: str) -> None:
    file.write_text(re.sub(r"<<<<<<<.*?>>>>>>>.*?\n", text, file.read_text(), flags=re.S))


def everything(shop: Workshop) -> dict[str, object]:
    """All that a rebase which is given up must leave as it was."""
    return {
        "sources": shop.sources(),
        "pin": shop.layout.pin.read_bytes(),
        "checkout": shop.state(),
        "worktrees": command_git(shop.checkout, "worktree", "list"),
        "build": sorted(path.name for path in shop.layout.build.iterdir()),
        "state": sorted(path.name for path in (shop.checkout / ".git").iterdir() if path.name.startswith("mpsfork")),
    }
