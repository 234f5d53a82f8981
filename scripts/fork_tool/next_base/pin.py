"""`patches/releases/<name>/`: another release on which the series is looked at, and what differs there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, StrictStr

from fork_tool.base.pin_values import at, Number, read_pin_file, Sha256, shaped, Table, Text
from fork_tool.common.errors import ForkToolError
from fork_tool.machine.package_index import PinnedWheel
from fork_tool.paths import Layout

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


_Version = Annotated[StrictStr, shaped(r"3\.\d+", "a version of Python, like 3.11")]


class _Wheel(Table):
    requirement: Annotated[StrictStr, shaped(r"[\w.-]+==\S+", "a requirement, like torch==2.13.0")]
    name: Annotated[StrictStr, shaped(r"[^/\s]+\.whl", "the name of a wheel")]
    size: Number
    sha256: Sha256
    platform: Text
    python: _Version
    index: Text | None = None

    def pinned(self) -> PinnedWheel:
        """As pip is asked for it."""
        return PinnedWheel(**self.model_dump())


class _File(BaseModel):
    tag: Text = at("upstream", "tag")
    wheel: _Wheel
    macos: Annotated[StrictStr, shaped(r"\d+\.\d+", "a version of macOS, like 14.0")] = at("compile", "macos")
    standard: Text = at("compile", "standard")
    runnable: _Wheel


def bases(layout: Layout) -> list[str]:
    """The names of all bases that have a folder."""
    return sorted(path.parent.name for path in layout.releases.glob(f"*/{PIN}"))


def load_next_pin(layout: Layout, name: str) -> NextPin:
    """Read and check the pin of one base."""
    path = layout.releases / name / PIN
    if not path.is_file():
        known = ", ".join(bases(layout)) or "none"
        raise ForkToolError(f"There is no base {name!r}: {layout.shown(path)} is missing; there are {known}.")
    values = read_pin_file(path, _File)
    return NextPin(
        name=name,
        tag=values.tag,
        wheel=values.wheel.pinned(),
        macos=values.macos,
        standard=values.standard,
        runnable=values.runnable.pinned(),
    )
