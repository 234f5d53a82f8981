"""Folders that are filled from pinned downloads: the simulator's Objective-C runtime, and the lists of Apple's constants."""

from __future__ import annotations

from pathlib import Path

from fork_tool.base.download import fetch_file
from fork_tool.base.mirrors import find_mirrors
from fork_tool.base.pin import Pin
from fork_tool.base.tarball import unpack_package
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import fill_once, is_filled
from fork_tool.common.processes import run_shown
from fork_tool.paths import Layout

# The packages with Apple's constants are for macOS, whatever machine this is.
_PLATFORM = (
    *("--platform", "macosx_10_9_universal2", "--python-version", "3.11"),
    *("--implementation", "cp", "--abi", "cp311", "--abi", "none"),
)


def has_objfw(layout: Layout, pin: Pin) -> bool:
    """Whether the pinned packages of ObjFW are in place."""
    return is_filled(layout.objfw, pin.objfw)


def unpack_objfw(layout: Layout, pin: Pin) -> bool:
    """Download ObjFW's packages and unpack them; false when they were there."""

    def fill(new: Path) -> None:
        mirrors = find_mirrors()
        for file in [fetch_file(package, mirrors, layout.cache) for package in pin.objfw]:
            unpack_package(file, new, "./usr")

    return fill_once(layout.objfw, pin.objfw, fill)


def fetch_apple_metadata(layout: Layout) -> bool:
    """Download the packages that list Apple's constants, for a test; false when they were there. pip checks their hashes."""
    requirements = layout.simulator_source / "tests" / "metadata_requirements.txt"

    def fill(new: Path) -> None:
        command = [str(layout.python), "-m", "pip", "download", "--disable-pip-version-check", "--quiet", "--no-deps"]
        command += ["--only-binary", ":all:", *_PLATFORM, "--require-hashes", "--requirement", str(requirements)]
        if run_shown([*command, "--dest", str(new)], layout.root):
            raise ForkToolError(
                f"pip could not download what {layout.shown(requirements)} names (see above): check the network and the package index, then run `make setup` again."
            )

    return fill_once(layout.apple_metadata, requirements.read_bytes(), fill)
