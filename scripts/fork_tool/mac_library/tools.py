"""Compiler and ninja, pinned, in a folder of their own below build."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from fork_tool.common.console import say
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import fill_once, write_atomically
from fork_tool.common.processes import run_shown
from fork_tool.mac_library.pin import MacPin
from fork_tool.mac_library.places import MacPlaces
from fork_tool.machine.package_index import pip_command


def install_tools(places: MacPlaces, pin: MacPin) -> bool:
    """Bring the tools to their pins; false when they were there."""

    def fill(new: Path) -> None:
        say(f"installing {', '.join(pin.tools)} in {places.shown(places.tools)}")
        if run_shown(pip_command(Path(sys.executable), ["--target", str(new), *pin.tools]), places.repository):
            raise ForkToolError(
                "The compiler for macOS could not be installed (see above): check the network and the package index, then run `make wheel` again."
            )
        # One word for the compiler, as ccache wants it.
        compiler = b'#!/bin/sh\nexec "${0%/*}/ziglang/zig" c++ "$@"\n'
        write_atomically(new / places.compiler.name, compiler, executable=True)

    return fill_once(places.tools, pin.tools, fill)


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
