"""The libraries of macOS that are linked against: their names as this repository knows them.

`scripts/mac_wheel/stubs/libraries.toml` says of each library which names the official wheel's libraries import from it, and
which further ones this library may, with the reason. A name that is in none of these lists is not linked.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from fork_tool.common.errors import ForkToolError
from fork_tool.mac_library.places import MacPlaces

SYSTEM = "libSystem"
CXX = "libc++"


@dataclass(frozen=True)
class AppleLibrary:
    """A library of macOS and the names that may be taken from it."""

    name: str
    # As dyld looks for it.
    path: str
    current: str
    compatible: str
    # Loaded where it is there: as in the official wheel.
    weak: bool
    official: tuple[str, ...]
    further: tuple[str, ...]

    @property
    def names(self) -> frozenset[str]:
        return frozenset((*self.official, *self.further))

    @property
    def is_framework(self) -> bool:
        """One of Apple's with classes of the device, which the report counts together."""
        return self.name not in (SYSTEM, CXX)


def list_of(places: MacPlaces) -> Path:
    """The file with the lists."""
    return places.own / "stubs" / "libraries.toml"


def load_libraries(places: MacPlaces) -> list[AppleLibrary]:
    """All libraries of the file."""
    path = list_of(places)
    try:
        tables = tomllib.loads(path.read_text("utf-8"))["library"]
        return [
            AppleLibrary(
                table["name"],
                table["path"],
                table["current"],
                table["compatible"],
                table["weak"],
                tuple(table["official"]),
                tuple(name for group in table.get("further", []) for name in group["names"]),
            )
            for table in tables
        ]
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError) as problem:
        shown = places.shown(path)
        raise ForkToolError(
            f"{shown} can't be read ({problem}): bring it back with `git checkout -- {shown}`."
        ) from None
