"""`bases/<name>/`: another release on which the series is looked at, and what differs there."""

from __future__ import annotations

from dataclasses import dataclass

from fork_tool.errors import ForkToolError
from fork_tool.package_index import PinnedWheel
from fork_tool.paths import Layout
from fork_tool.pin_values import read_pin_file, Table

FOLDER = "bases"
PIN = "base.toml"


@dataclass(frozen=True)
class NextPin:
    """What is known of the base: its wheels, by hash, and how its sources are compiled."""

    name: str
    tag: str
    # For a Mac: headers, Python files and libraries are read from it.
    wheel: PinnedWheel
    macos: str
    standard: str
    # For Linux: the Python layer runs on it.
    runnable: PinnedWheel


def bases(layout: Layout) -> list[str]:
    """The names of all bases that have a folder."""
    return sorted(path.parent.name for path in (layout.root / FOLDER).glob(f"*/{PIN}"))


def load_next_pin(layout: Layout, name: str) -> NextPin:
    """Read and check the pin of one base."""
    path = layout.root / FOLDER / name / PIN
    if not path.is_file():
        known = ", ".join(bases(layout)) or "none"
        raise ForkToolError(f"There is no base {name!r}: {layout.shown(path)} is missing; there are {known}.")
    values = read_pin_file(path)
    compile_ = values.table("compile")
    return NextPin(
        name=name,
        tag=values.table("upstream").text("tag"),
        wheel=_wheel(values.table("wheel")),
        macos=compile_.text("macos", r"\d+\.\d+", "a version of macOS, like 14.0"),
        standard=compile_.text("standard"),
        runnable=_wheel(values.table("runnable")),
    )


def _wheel(values: Table) -> PinnedWheel:
    return PinnedWheel(
        requirement=values.text("requirement", r"[\w.-]+==\S+", "a requirement, like torch==2.13.0"),
        name=values.text("name", r"[^/\s]+\.whl", "the name of a wheel"),
        size=values.number("size"),
        sha256=values.sha256("sha256"),
        platform=values.text("platform"),
        python=values.text("python", r"3\.\d+", "a version of Python, like 3.11"),
        index=values.text("index") if "index" in values.values else None,
    )
