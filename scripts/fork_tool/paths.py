"""Where everything lies, seen from the root of the repository."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


class _Place:
    """A path below the root."""

    def __init__(self, path: str):
        self._path = path

    def __get__(self, layout: Layout, _owner: type) -> Path:
        return layout.root / self._path


@dataclass(frozen=True)
class Layout:
    """The directories of one working copy of this repository."""

    root: Path

    pin = _Place("base.toml")
    patches = _Place("patches")
    series = _Place("patches/series")
    # What differs on other releases of PyTorch.
    releases = _Place("patches/releases")
    overlay = _Place("aten_mps_overlay")
    requirements = _Place("requirements.txt")
    environment = _Place(".venv")
    python = _Place(".venv/bin/python")
    # The table of the suites of tests.
    suites = _Place("test/suites.py")
    simulator_source = _Place("test/simulator")

    build = _Place("build")
    checkout = _Place("build/pytorch")
    # Worktrees of the checkout: the base without the series; the series up to one entry, which goes from entry to
    # entry; and the one in which an entry that conflicts with another base waits for the user's hand.
    base_checkout = _Place("build/pytorch-base")
    entries_checkout = _Place("build/pytorch-entries")
    rebase_checkout = _Place("build/pytorch-rebase")
    objfw = _Place("build/toolchain/objfw")
    apple_metadata = _Place("build/toolchain/apple_metadata")
    simulator_build = _Place("build/simulator")
    reports = _Place("build/reports")
    # The libraries of real models.
    model_packages = _Place("build/models/packages")
    # Upstream's tools in an environment of their own, and what they leave.
    upstream_checks = _Place("build/upstream_checks")
    export = _Place("build/export")
    # The build of torch's wheel: its environments, its stamps, the wheel.
    wheel = _Place("build/wheel")

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
