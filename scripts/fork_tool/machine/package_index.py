"""Wheels of a package index: downloaded by pip, used only when size and hash are right."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, StrictStr

from fork_tool.base.download import sha256_of
from fork_tool.base.pin_values import Number, Sha256, Table, Text
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import need_space
from fork_tool.common.processes import run_shown


class PinnedWheel(Table):
    """A wheel, and how pip is asked for it."""

    requirement: Annotated[StrictStr, Field(pattern=r"^[\w.-]+==\S+$")]
    name: Annotated[StrictStr, Field(pattern=r"^[^/\s]+\.whl$")]
    size: Number
    sha256: Sha256
    platform: Text
    # The version of Python that it is for.
    python: Annotated[StrictStr, Field(pattern=r"^3\.\d+$")]
    # Asked when those that pip knows do not have it.
    index: Text | None = None


def fetch_pinned_wheel(wheel: PinnedWheel, cache: Path, root: Path, pin: str) -> Path:
    """The wheel in the cache, downloaded where it is not; `pin` names the file that has its hash."""
    path = cache / wheel.name
    if path.is_file():
        if path.stat().st_size == wheel.size and sha256_of(path) == wheel.sha256:
            return path
        path.unlink()
    cache.mkdir(parents=True, exist_ok=True)
    need_space(cache, wheel.size * 2, f"Downloading {wheel.name}")
    with tempfile.TemporaryDirectory(prefix=".wheel-", dir=cache) as scratch:
        requirement = Path(scratch) / "requirement.txt"
        requirement.write_text(f"{wheel.requirement} --hash=sha256:{wheel.sha256}\n")
        words = ("-m", "pip", "download", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:")
        platform = ("--platform", wheel.platform, "--python-version", wheel.python)
        command = [sys.executable, *words, *platform, "--dest", scratch, "--require-hashes", "-r", str(requirement)]
        found = Path(scratch) / wheel.name
        failed = run_shown(command, root)
        if (failed or not found.is_file()) and wheel.index:
            failed = run_shown([*command, "--index-url", wheel.index], root)
        if failed or not found.is_file():
            raise ForkToolError(
                f"The wheel {wheel.name} could not be downloaded with the hash in {pin} (see above): check the network "
                "and the package index, or correct the hash, then run this again."
            )
        size, digest = found.stat().st_size, sha256_of(found)
        if (size, digest) != (wheel.size, wheel.sha256):
            raise ForkToolError(
                f"{wheel.name} is not the wheel that {pin} names (sha256 {digest[:16]}…, {size} bytes; expected "
                f"{wheel.sha256[:16]}…, {wheel.size} bytes): nothing was made of it; download it again or correct {pin}."
            )
        found.replace(path)
    return path


def pip_command(python: Path, words: Sequence[str]) -> list[str]:
    """An installation that asks nothing and installs what it is told to, only."""
    quiet = ("--disable-pip-version-check", "--no-input", "--no-deps", "--quiet")
    return [str(python), "-m", "pip", "install", *quiet, *words]
