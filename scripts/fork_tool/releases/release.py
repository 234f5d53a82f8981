"""A release in `patches/releases/`: its pin, and where its parts lie."""

from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from fork_tool.base.pin_values import at, read_pin_file, Text
from fork_tool.common.errors import ForkToolError
from fork_tool.machine.package_index import PinnedWheel
from fork_tool.paths import Layout, Place

PIN = "base.toml"


class ReleasePin(BaseModel):
    """What is known of the release: its wheels, by hash, and how its sources are compiled."""

    tag: Text = at("upstream", "tag")
    # For a Mac: headers, Python files and libraries are read from it.
    wheel: PinnedWheel
    macos: Text = at("compile", "macos")
    standard: Text = at("compile", "standard")
    # For Linux: the Python layer runs on it.
    runnable: PinnedWheel


def releases(layout: Layout) -> list[str]:
    return sorted(path.parent.name for path in layout.releases.glob(f"*/{PIN}"))


def load_release_pin(layout: Layout, name: str) -> ReleasePin:
    path = layout.releases / name / PIN
    if not path.is_file():
        known = ", ".join(releases(layout)) or "none"
        raise ForkToolError(f"There is no release {name!r}: {layout.shown(path)} is missing; there are {known}.")
    return read_pin_file(path, ReleasePin)


@dataclass(frozen=True)
class ReleasePlaces:
    """The directories of one newer release: what this repository has of it, and what is made below build/releases."""

    layout: Layout
    name: str

    @property
    def own(self) -> Path:
        return self.layout.releases / self.name

    @property
    def root(self) -> Path:
        return self.layout.build / "releases" / self.name

    series = Place("series", of="own")
    # Patches that exist only there, and the files of others that differ there.
    patches = Place("patches", of="own")
    overlay = Place("overlay", of="own")
    # What its backend uses of Apple's and the simulator lacks.
    apple_list = Place("simulator_lacks.toml", of="own")
    # What its Python layer needs besides torch.
    requirements = Place("requirements.txt", of="own")
    # The Mac's wheel, unpacked but for its libraries; and what was read from these.
    wheel = Place("wheel")
    headers = Place("wheel/torch/include")
    facts = Place("facts.json")
    # The patched files at their upstream paths, and the overlay.
    tree = Place("tree")
    objects = Place("objects")
    ninja_file = Place("build.ninja")
    # An environment with the release's torch for Linux.
    environment = Place("environment")
    python = Place("environment/bin/python")

    @property
    def report(self) -> Path:
        return self.layout.reports / "releases.json"
