"""The ObjFW packages: the Objective-C runtime of the simulator."""

from __future__ import annotations

import hashlib
import subprocess

from fork_tool.base.download import fetch_file
from fork_tool.base.mirrors import find_mirrors
from fork_tool.base.pin import Pin
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import new_directory
from fork_tool.paths import Layout

_STAMP = ".mpsfork-packages"


def _digest(pin: Pin) -> str:
    return hashlib.sha256(" ".join(package.sha256 for package in pin.objfw).encode()).hexdigest()


def is_unpacked(layout: Layout, pin: Pin) -> bool:
    """Whether the pinned packages are in place."""
    try:
        return (layout.objfw / _STAMP).read_text() == _digest(pin)
    except OSError:
        return False


def unpack_objfw(layout: Layout, pin: Pin) -> bool:
    """Download the packages and unpack them; false when they were there."""
    if is_unpacked(layout, pin):
        return False
    mirrors = find_mirrors({package.release for package in pin.objfw})
    files = [fetch_file(package, mirrors, layout.cache) for package in pin.objfw]
    with new_directory(layout.objfw) as new:
        for file in files:
            try:
                done = subprocess.run(
                    ["dpkg", "-x", str(file), str(new)],
                    capture_output=True,
                    text=True,
                    check=False,
                    start_new_session=True,
                )
            except FileNotFoundError:
                raise ForkToolError(
                    "dpkg is not installed: it comes with Debian and Ubuntu, which the simulator is made for; elsewhere install it by hand."
                ) from None
            if done.returncode:
                raise ForkToolError(
                    f"{file.name} could not be unpacked ({done.stderr.strip() or 'dpkg -x failed'}): delete {file} and run `make setup` again."
                )
        (new / _STAMP).write_text(_digest(pin))
    return True
