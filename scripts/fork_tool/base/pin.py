"""The one pin file, `base.toml`."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from fork_tool.base.pin_values import at, Date, FileName, GitName, Number, read_pin_file, Sha256, Table, Text
from fork_tool.paths import Layout


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
        return f"{self.pool}/{self.name}"


class PinnedFile(Table):
    name: FileName
    size: Number
    sha256: Sha256


class DebianFile(PinnedFile):
    """The same in a Debian archive."""

    release: Text
    pool: Text

    def download(self, archives: tuple[str, ...]) -> Download:
        """What to ask mirrors and archives for."""
        return Download(self.pool, self.name, self.size, self.sha256, self.release, archives)


class Tarball(DebianFile):
    """The base's source, whose files make this tree."""

    tree: GitName


class Pin(BaseModel):
    model_config = ConfigDict(frozen=True)

    tag: Text = at("upstream", "tag")
    commit: GitName = at("upstream", "commit")
    url: Text = at("upstream", "url")
    # Of every commit that `apply` makes.
    date: Date = at("upstream", "date")
    # The same source in a Debian archive, where there is one.
    debian: Tarball | None = None
    archives: tuple[Text, ...] = at("archive", "mirrors", default=())
    # The N of 2.6.0+mps.N.
    number: Number = at("release", "number")
    wheel_name: Text = at("wheel", "name")
    wheel_version: Text = at("wheel", "version")
    # An index of builds without CUDA's libraries.
    cpu_index: Text | None = at("wheel", "cpu_index", default=None)
    objfw_release: Text = at("objfw", "release")
    objfw_pool: Text = at("objfw", "pool")
    objfw_packages: tuple[PinnedFile, ...] = at("objfw", "packages")

    @property
    def wheel(self) -> str:
        """The base's wheel, as pip calls it."""
        return f"{self.wheel_name}=={self.wheel_version}"

    @property
    def version(self) -> str:
        """The version of what is made of base and series."""
        return f"{self.wheel_version}+mps.{self.number}"

    @property
    def tarball(self) -> Download | None:
        return self.debian.download(self.archives) if self.debian else None

    @property
    def tarball_tree(self) -> str | None:
        """The tree that it makes."""
        return self.debian.tree if self.debian else None

    @property
    def objfw(self) -> tuple[Download, ...]:
        """The packages of the simulator's Objective-C runtime."""
        place = (self.objfw_release, self.archives)
        return tuple(
            Download(self.objfw_pool, file.name, file.size, file.sha256, *place) for file in self.objfw_packages
        )


def load_pin(path: Path) -> Pin:
    return read_pin_file(path, Pin)


class WorkingCopy:
    """Where everything lies, and what base.toml says."""

    def __init__(self, layout: Layout):
        self.layout = layout

    @cached_property
    def pin(self) -> Pin:
        return load_pin(self.layout.pin)

    def forget_pin(self) -> None:
        """The pin file was rewritten."""
        self.__dict__.pop("pin", None)
