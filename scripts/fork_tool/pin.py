"""The one pin file, `base.toml`."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fork_tool.errors import ForkToolError


@dataclass(frozen=True)
class Download:
    """A file in a Debian archive, known by its size and hash."""

    pool: str
    name: str
    size: int
    sha256: str
    release: str

    @property
    def path(self) -> str:
        """Where it lies below the base of a mirror."""
        return f"{self.pool}/{self.name}"


@dataclass(frozen=True)
class WheelBuild:
    """What building the wheel from source takes."""

    # The oldest and the newest.
    python: tuple[str, str]
    macos: str
    sdk: str
    requires: tuple[str, ...]
    options: dict[str, str]


@dataclass(frozen=True)
class Pin:
    """All that this repository knows about its base."""

    tag: str
    commit: str
    url: str
    date: str
    tarball: Download
    tarball_tree: str
    wheel_name: str
    wheel_version: str
    wheel_build: WheelBuild
    objfw: tuple[Download, ...]

    @property
    def wheel(self) -> str:
        return f"{self.wheel_name}=={self.wheel_version}"


def load_pin(path: Path) -> Pin:
    """Read and check the pin file."""
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ForkToolError(f"{path} is missing: bring it back with `git checkout -- {path.name}`.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise ForkToolError(
            f"{path} is not valid TOML ({problem}): mend that line or `git checkout -- {path.name}`."
        ) from None
    try:
        upstream, debian, wheel, objfw = (values[table] for table in ("upstream", "debian", "wheel", "objfw"))
        pin = Pin(
            tag=upstream["tag"],
            commit=upstream["commit"],
            url=upstream["url"],
            date=upstream["date"],
            tarball=_download(debian, debian),
            tarball_tree=debian["tree"],
            wheel_name=wheel["name"],
            wheel_version=wheel["version"],
            wheel_build=_wheel_build(wheel["build"]),
            objfw=tuple(_download(objfw, package) for package in objfw["packages"]),
        )
    except (KeyError, TypeError, ValueError) as problem:
        raise ForkToolError(f"{path} lacks the value {problem}: add it or `git checkout -- {path.name}`.") from None
    _check(path, "upstream.commit", pin.commit, r"[0-9a-f]{40}")
    _check(path, "debian.tree", pin.tarball_tree, r"[0-9a-f]{40}")
    for download in (pin.tarball, *pin.objfw):
        _check(path, f"sha256 of {download.name}", download.sha256, r"[0-9a-f]{64}")
    return pin


def _download(place: dict[str, Any], file: dict[str, Any]) -> Download:
    return Download(place["pool"], file["name"], int(file["size"]), file["sha256"], place["release"])


def _wheel_build(values: dict[str, Any]) -> WheelBuild:
    oldest, newest = values["python"]
    options = {str(name): str(value) for name, value in values["options"].items()}
    return WheelBuild((oldest, newest), values["macos"], values["sdk"], tuple(values["requires"]), options)


def _check(path: Path, name: str, value: str, shape: str) -> None:
    if not re.fullmatch(shape, value):
        raise ForkToolError(
            f"{path}: {name} is {value!r}, which is no such hash: mend it or `git checkout -- {path.name}`."
        )
