"""Where everything lies, seen from the root of the repository."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Layout:
    """The directories of one working copy of this repository."""

    root: Path

    @property
    def pin(self) -> Path:
        return self.root / "base.toml"

    @property
    def patches(self) -> Path:
        return self.root / "patches"

    @property
    def series(self) -> Path:
        return self.patches / "series"

    @property
    def releases(self) -> Path:
        """What differs on other releases of PyTorch."""
        return self.patches / "releases"

    @property
    def overlay(self) -> Path:
        return self.root / "aten_mps_overlay"

    @property
    def requirements(self) -> Path:
        return self.root / "requirements.txt"

    @property
    def environment(self) -> Path:
        return self.root / ".venv"

    @property
    def python(self) -> Path:
        return self.environment / "bin" / "python"

    @property
    def build(self) -> Path:
        return self.root / "build"

    @property
    def checkout(self) -> Path:
        return self.build / "pytorch"

    @property
    def objfw(self) -> Path:
        return self.build / "toolchain" / "objfw"

    @property
    def apple_metadata(self) -> Path:
        return self.build / "toolchain" / "apple_metadata"

    @property
    def simulator_source(self) -> Path:
        return self.root / "test" / "simulator"

    @property
    def simulator_build(self) -> Path:
        return self.build / "simulator"

    @property
    def suites(self) -> Path:
        """The table of the suites of tests."""
        return self.root / "test" / "suites.py"

    @property
    def base_checkout(self) -> Path:
        """The base without the series, a worktree of the checkout."""
        return self.build / "pytorch-base"

    @property
    def entries_checkout(self) -> Path:
        """The series up to one entry, a worktree of the checkout that goes from entry to entry."""
        return self.build / "pytorch-entries"

    @property
    def rebase_checkout(self) -> Path:
        """A worktree of the checkout in which an entry that conflicts with another base waits for the user's hand."""
        return self.build / "pytorch-rebase"

    def other_simulator_build(self, name: str) -> Path:
        """A build of the simulator beside the usual one."""
        return self.build / f"simulator-{name}"

    @property
    def reports(self) -> Path:
        return self.build / "reports"

    @property
    def model_packages(self) -> Path:
        """The libraries of real models."""
        return self.build / "models" / "packages"

    @property
    def upstream_checks(self) -> Path:
        """Upstream's tools in an environment of their own, and what they leave."""
        return self.build / "upstream_checks"

    @property
    def export(self) -> Path:
        return self.build / "export"

    @property
    def wheel(self) -> Path:
        """The build of torch's wheel: its environment, its stamps, the wheel."""
        return self.build / "wheel"

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
