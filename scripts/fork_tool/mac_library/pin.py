"""The table `mac_library` of `base.toml`: what the wheel is made of, by hash."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fork_tool.errors import ForkToolError
from fork_tool.pin import Download


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
    values = tomllib.loads(path.read_text("utf-8"))
    try:
        table = values["mac_library"]
        pin = MacPin(
            torch=values["wheel"]["version"],
            number=int(table["number"]),
            macos=table["macos"],
            sdk=table["sdk"],
            platform=table["platform"],
            official_platform=table["official_platform"],
            tools=tuple(table["tools"]),
            wheels={wheel["python"]: _wheel(wheel) for wheel in table["wheels"]},
            fmt=_download(table["fmt"]),
            headers={package["python"]: _download(package) for package in table["headers"]},
        )
    except (KeyError, TypeError, ValueError) as problem:
        raise ForkToolError(f"{path} lacks the value {problem}: add it or `git checkout -- {path.name}`.") from None
    for name, sha256 in (
        *((wheel.name, wheel.sha256) for wheel in pin.wheels.values()),
        *((package.name, package.sha256) for package in (pin.fmt, *pin.headers.values())),
    ):
        if not re.fullmatch(r"[0-9a-f]{64}", sha256):
            raise ForkToolError(
                f"{path}: sha256 of {name} is {sha256!r}, which is no such hash: mend it or `git checkout -- {path.name}`."
            )
    return pin


def _wheel(values: dict[str, Any]) -> OfficialWheel:
    return OfficialWheel(values["python"], values["name"], int(values["size"]), values["sha256"])


def _download(values: dict[str, Any]) -> Download:
    return Download(values["pool"], values["name"], int(values["size"]), values["sha256"], values["release"])
