"""Where the built libraries are."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class SimulatorError(RuntimeError):
    """The simulator cannot be used as asked; the message says what to do."""


@dataclass(frozen=True)
class Build:
    """Paths of one build, as CMake recorded them."""

    directory: Path
    library: Path
    # None: the frameworks alone, without PyTorch's backend.
    bindings: Path | None
    checkout: Path
    wheel: Path
    python: Path
    extension_compiler: Path
    changed_modules: dict[str, Path]
    sanitizer: str = ""
    sanitizer_runtime: str = ""

    def added_to(self, package: str) -> list[Path]:
        """Files of the modules that the series adds to a package of the wheel."""
        added = [self.changed_modules[name] for name in self.changed_modules if name.rpartition(".")[0] == package]
        return [path for path in added if not (self.wheel / path.relative_to(self.checkout / "torch")).exists()]

    @property
    def link_map(self) -> Path:
        """What the linker wrote about the library: which object each function is of."""
        return self.library.with_suffix(".map")


def build_directory() -> Path:
    """Returns ``MPS_SIMULATOR_BUILD``, or build/simulator of this repository."""
    override = os.environ.get("MPS_SIMULATOR_BUILD")
    if override:
        return Path(override)
    return Path(__file__).resolve().parents[3] / "build" / "simulator"


def built_for_tests(name: str, sources: Iterable[Path]) -> Path:
    """Returns a library or program that only tests run, which a build leaves out unless asked.

    Raises SimulatorError if it is missing, or older than one of its sources.
    """
    path = build_directory() / name
    remedy = "run `make simulator TESTS=1`"
    if not path.exists():
        raise SimulatorError(f"{path} is not built: {remedy}")
    for source in sources:
        if source.stat().st_mtime > path.stat().st_mtime:
            raise SimulatorError(f"{path} is older than {source}: {remedy}")
    return path


def read_build() -> Build:
    """Returns the build, or raises SimulatorError if there is none."""
    directory = build_directory()
    try:
        facts = json.loads((directory / "mps_simulator.json").read_text())
        changed = json.loads((directory / "changed_modules.json").read_text())
    except FileNotFoundError:
        raise SimulatorError(f"the simulator is not built in {directory}: run `make simulator`") from None
    build = Build(
        directory=directory,
        library=Path(facts["library"]),
        bindings=Path(facts["bindings"]) if facts["bindings"] else None,
        checkout=Path(facts["checkout"]),
        wheel=Path(facts["wheel"]),
        python=Path(facts["python"]),
        extension_compiler=directory / "bin" / "mps-clang++",
        changed_modules={name: Path(path) for name, path in changed.items()},
        sanitizer=facts["sanitizer"],
        sanitizer_runtime=facts["sanitizer_runtime"],
    )
    for path in (build.library, build.bindings, build.checkout):
        if path is not None and not path.exists():
            raise SimulatorError(f"the simulator's build lacks {path}: run `make simulator`")
    return build
