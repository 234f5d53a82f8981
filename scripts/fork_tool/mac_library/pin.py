"""The table `mac_library` of `base.toml`: what the wheel is made of, by hash."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fork_tool.errors import ForkToolError
from fork_tool.pin import Download, read_archives, read_download
from fork_tool.pin_values import read_pin_file, Table


@dataclass(frozen=True)
class OfficialWheel:
    """A wheel of the package index, for one version of Python."""

    python: str
    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class MacPin:
    """All that the wheel is made of, besides the checkout."""

    torch: str
    number: int
    macos: str
    # Of the SDK, as in the official wheel: some libraries of macOS act by it.
    sdk: str
    platform: str
    official_platform: str
    tools: tuple[str, ...]
    wheels: dict[str, OfficialWheel]
    fmt: Download
    # By the version of Python.
    headers: dict[str, Download]

    @property
    def version(self) -> str:
        """The version of the wheel that is made."""
        return f"{self.torch}+mpsgraph.{self.number}"

    def wheel(self, python: str) -> OfficialWheel:
        """The official wheel for this version of Python."""
        try:
            return self.wheels[python]
        except KeyError:
            raise ForkToolError(
                f"There is no official wheel of torch {self.torch} for Python {python}: give one of {', '.join(self.wheels)}."
            ) from None


def load_mac_pin(path: Path) -> MacPin:
    """Read and check the table."""
    values = read_pin_file(path)
    table = values.table("mac_library")
    headers = list(table.tables("headers"))
    fmt = table.table("fmt")
    archives = read_archives(values)
    return MacPin(
        torch=values.table("wheel").text("version"),
        number=table.number("number"),
        macos=table.text("macos"),
        sdk=table.text("sdk"),
        platform=table.text("platform"),
        official_platform=table.text("official_platform"),
        tools=table.texts("tools"),
        wheels={wheel.text("python"): _wheel(wheel) for wheel in table.tables("wheels")},
        fmt=read_download(fmt, fmt, archives),
        headers={package.text("python"): read_download(package, package, archives) for package in headers},
    )


def _wheel(values: Table) -> OfficialWheel:
    return OfficialWheel(values.text("python"), values.text("name"), values.number("size"), values.sha256("sha256"))
