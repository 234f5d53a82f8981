"""Where the parts of a next base lie."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fork_tool.paths import Layout


@dataclass(frozen=True)
class NextPlaces:
    """The directories of one next base: what this repository has of it, and what is made below build/next."""

    layout: Layout
    name: str

    @property
    def own(self) -> Path:
        return self.layout.releases / self.name

    @property
    def series(self) -> Path:
        return self.own / "series"

    @property
    def patches(self) -> Path:
        """Entries that exist only there, and the files of others that differ there."""
        return self.own / "patches"

    @property
    def overlay(self) -> Path:
        return self.own / "overlay"

    @property
    def apple_list(self) -> Path:
        """What its backend uses of Apple's and the simulator lacks."""
        return self.own / "simulator_lacks.toml"

    @property
    def requirements(self) -> Path:
        """What its Python layer needs besides torch."""
        return self.own / "requirements.txt"

    @property
    def root(self) -> Path:
        return self.layout.build / "next" / self.name

    @property
    def wheel(self) -> Path:
        """The Mac's wheel, unpacked but for its libraries."""
        return self.root / "wheel"

    @property
    def headers(self) -> Path:
        return self.wheel / "torch" / "include"

    @property
    def facts(self) -> Path:
        """What was read from the wheel's libraries."""
        return self.root / "facts.json"

    @property
    def tree(self) -> Path:
        """The patched files at their upstream paths, and the overlay."""
        return self.root / "tree"

    @property
    def objects(self) -> Path:
        return self.root / "objects"

    @property
    def ninja_file(self) -> Path:
        return self.root / "build.ninja"

    @property
    def environment(self) -> Path:
        """An environment with the base's torch for Linux."""
        return self.root / "environment"

    @property
    def python(self) -> Path:
        return self.environment / "bin" / "python"

    @property
    def report(self) -> Path:
        return self.layout.reports / "next_base.json"
