"""Where everything lies, seen from the root of the repository."""

import os
from dataclasses import dataclass
from pathlib import Path


class Place:
    """A path below another of the same object, its `root` if none is named."""

    def __init__(self, path: str, of: str = "root"):
        self._path, self._of = path, of

    def __get__(self, places: object, _owner: type) -> Path:
        above: Path = getattr(places, self._of)
        return above / self._path


@dataclass(frozen=True)
class Layout:
    root: Path

    pin = Place("base.toml")
    patches = Place("patches")
    series = Place("patches/series")
    # What differs on other releases of PyTorch.
    releases = Place("patches/releases")
    overlay = Place("aten_mps_overlay")
    requirements = Place("requirements.txt")
    environment = Place(".venv")
    python = Place(".venv/bin/python")
    # The table of the suites of tests.
    suites = Place("test/suites.py")
    simulator_source = Place("test/simulator")

    build = Place("build")
    checkout = Place("build/pytorch")
    # Worktrees of the checkout: the base without the series; the series up to one patch, which goes from patch to
    # patch; and the one in which git moves the series to another base, and a conflict waits for the user.
    base_checkout = Place("build/pytorch-base")
    patches_checkout = Place("build/pytorch-patches")
    rebase_checkout = Place("build/pytorch-rebase")
    objfw = Place("build/toolchain/objfw")
    apple_metadata = Place("build/toolchain/apple_metadata")
    simulator_build = Place("build/simulator")
    reports = Place("build/reports")
    # The libraries of real models.
    model_packages = Place("build/models/packages")
    # Upstream's tools in an environment of their own, and what they leave.
    upstream_checks = Place("build/upstream_checks")
    export = Place("build/export")

    def other_simulator_build(self, name: str) -> Path:
        """A build of the simulator beside the usual one."""
        return self.build / f"simulator-{name}"

    @property
    def cache(self) -> Path:
        """Downloads; outlives `make clean` and may be shared by working copies."""
        chosen = os.environ.get("MPSFORK_CACHE")
        if chosen:
            return Path(chosen).expanduser()
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        return Path(base).expanduser() / "mpsfork"

    def shown(self, path: Path) -> str:
        """`path` as the user would type it from the root."""
        try:
            return str(path.relative_to(self.root))
        except ValueError:
            return str(path)


def own_layout() -> Layout:
    """The working copy that this file belongs to."""
    return Layout(Path(__file__).resolve().parents[2])
