"""Compiler and ninja, pinned, in a folder of their own below build."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import Any

from fork_tool.common.console import say
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import remove, write_atomically
from fork_tool.common.processes import run_shown
from fork_tool.mac_library.pin import MacPin
from fork_tool.mac_library.places import MacPlaces
from fork_tool.machine.package_index import pip_command

_STAMP = ".mpsfork-tools"


def install_tools(places: MacPlaces, pin: MacPin) -> bool:
    """Bring the tools to their pins; false when they were there."""
    stamp = places.tools / _STAMP
    digest = hashlib.sha256("\n".join(pin.tools).encode()).hexdigest()
    if stamp.is_file() and stamp.read_text() == digest and places.compiler.exists():
        return False
    remove(places.tools)
    say(f"installing {', '.join(pin.tools)} in {places.shown(places.tools)}")
    command = pip_command(Path(sys.executable), ["--target", str(places.tools), *pin.tools])
    if run_shown(command, places.repository):
        raise ForkToolError(
            "The compiler for macOS could not be installed (see above): check the network and the package index, then run `make wheel` again."
        )
    # One word for the compiler, as ccache wants it.
    write_atomically(places.compiler, b'#!/bin/sh\nexec "${0%/*}/ziglang/zig" c++ "$@"\n', executable=True)
    write_atomically(stamp, digest.encode())
    return True


def compiler_environment(places: MacPlaces, pin: MacPin) -> dict[str, str]:
    """The environment for ninja, in which the compiler's cache takes what a clone in another folder has compiled."""
    return os.environ | {
        **places.compiler_environment,
        "CCACHE_BASEDIR": str(places.repository),
        "CCACHE_COMPILERTYPE": "clang",
        "CCACHE_COMPILERCHECK": f"string:{' '.join(pin.tools)}",
        "CCACHE_SLOPPINESS": "time_macros",
    }


def read_library(file: Path) -> Any:
    """The parsed Mach-O file, which must hold code for one processor."""
    # Imported here: `make setup` installs it.
    import lief

    lief.logging.disable()
    parsed: Any = lief.MachO.parse(str(file))
    if parsed is None or len(parsed) != 1:
        raise ForkToolError(f"{file} is not one Mach-O file: delete it and run `make wheel` again.")
    # Taken out: what `at` gives lives no longer than the list that it is in.
    return parsed.take(parsed.at(0).header.cpu_type)
