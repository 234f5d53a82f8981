"""The one pin file, `base.toml`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fork_tool.pin_values import read_pin_file, Table

_DATE = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d"


@dataclass(frozen=True)
class Download:
    """A file in a Debian archive, known by its size and hash."""

    pool: str
    name: str
    size: int
    sha256: str
    release: str
    # Public archives to ask when no mirror that apt knows has it.
    archives: tuple[str, ...] = ()

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
    # The same source in a Debian archive, where there is one.
    tarball: Download | None
    tarball_tree: str | None
    wheel_name: str
    wheel_version: str
    wheel_build: WheelBuild
    objfw: tuple[Download, ...]

    @property
    def wheel(self) -> str:
        return f"{self.wheel_name}=={self.wheel_version}"


def load_pin(path: Path) -> Pin:
    """Read and check the pin file."""
    values = read_pin_file(path)
    upstream, wheel, objfw = (values.table(name) for name in ("upstream", "wheel", "objfw"))
    archives = read_archives(values)
    debian = values.table("debian") if "debian" in values.values else None
    return Pin(
        tag=upstream.text("tag"),
        commit=upstream.commit("commit"),
        url=upstream.text("url"),
        date=upstream.text("date", _DATE, "a date with its zone, like 2025-01-29T17:20:00+00:00"),
        tarball=read_download(debian, debian, archives) if debian else None,
        tarball_tree=debian.commit("tree") if debian else None,
        wheel_name=wheel.text("name"),
        wheel_version=wheel.text("version"),
        wheel_build=_wheel_build(wheel.table("build")),
        objfw=tuple(read_download(objfw, package, archives) for package in objfw.tables("packages")),
    )


def read_archives(values: Table) -> tuple[str, ...]:
    """The public archives that base.toml names, where it does."""
    return values.table("archive").texts("mirrors") if "archive" in values.values else ()


def read_download(place: Table, file: Table, archives: tuple[str, ...]) -> Download:
    """A file in a Debian archive; what a table has in common for several may be in another."""
    name = file.text("name", r"[^/\s]+", "the name of a file")
    pool, release = place.text("pool"), place.text("release")
    return Download(pool, name, file.number("size"), file.sha256("sha256"), release, archives)


def _wheel_build(values: Table) -> WheelBuild:
    python = values.texts("python")
    if len(python) != 2:
        raise values.wrong("python", "the oldest and the newest version")
    return WheelBuild(
        (python[0], python[1]),
        values.text("macos"),
        values.text("sdk"),
        values.texts("requires"),
        values.options("options"),
    )
