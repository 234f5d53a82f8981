"""The packages whose metadata lists Apple's constants: downloaded for a test, never installed."""

from __future__ import annotations

import hashlib
from pathlib import Path

from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import new_directory
from fork_tool.common.processes import run_shown
from fork_tool.paths import Layout

_STAMP = ".mpsfork-requirements"
# They are for macOS, whatever machine this is.
_PLATFORM = (
    *("--platform", "macosx_10_9_universal2", "--python-version", "3.11"),
    *("--implementation", "cp", "--abi", "cp311", "--abi", "none"),
)


def requirements_file(layout: Layout) -> Path:
    """What is wanted, by version and hash."""
    return layout.simulator_source / "tests" / "metadata_requirements.txt"


def is_fetched(layout: Layout) -> bool:
    """Whether the pinned packages are in place."""
    wanted = hashlib.sha256(requirements_file(layout).read_bytes()).hexdigest()
    try:
        return (layout.apple_metadata / _STAMP).read_text() == wanted
    except OSError:
        return False


def fetch_apple_metadata(layout: Layout) -> bool:
    """Download the packages; false when they were there. pip checks their hashes."""
    if is_fetched(layout):
        return False
    requirements = requirements_file(layout)
    with new_directory(layout.apple_metadata) as new:
        command = [str(layout.python), "-m", "pip", "download", "--disable-pip-version-check", "--quiet", "--no-deps"]
        command += ["--only-binary", ":all:", *_PLATFORM, "--require-hashes", "--requirement", str(requirements)]
        if run_shown([*command, "--dest", str(new)], layout.root):
            raise ForkToolError(
                f"pip could not download what {layout.shown(requirements)} names (see above): check the network and the package index, then run `make setup` again."
            )
        (new / _STAMP).write_text(hashlib.sha256(requirements.read_bytes()).hexdigest())
    return True
