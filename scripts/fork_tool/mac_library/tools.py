"""Compiler, ninja and lief, pinned, in a folder of their own below build."""

from __future__ import annotations

import hashlib
import importlib
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
    # lief is compiled for one version of Python.
    digest = hashlib.sha256("\n".join((*pin.tools, sys.version)).encode()).hexdigest()
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


def import_tool(places: MacPlaces, name: str) -> Any:
    """A module of the tools' packages."""
    directory = str(places.tools)
    if directory not in sys.path:
        sys.path.append(directory)
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ForkToolError(f"There is no {name} in {places.shown(places.tools)}: run `make wheel`.") from None


def import_lief(places: MacPlaces) -> Any:
    """The module that reads and checks Mach-O files."""
    lief = import_tool(places, "lief")
    lief.logging.disable()
    return lief


def read_library(lief: Any, file: Path) -> Any:
    """The parsed Mach-O file, which must hold code for one processor."""
    parsed = lief.MachO.parse(str(file))
    if parsed is None or len(parsed) != 1:
        raise ForkToolError(f"{file} is not one Mach-O file: delete it and run `make wheel` again.")
    # Taken out: what `at` gives lives no longer than the list that it is in.
    return parsed.take(parsed.at(0).header.cpu_type)
