"""The linker's run: one library out of the objects, with nothing exported but what is named."""

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from fork_tool.common.console import say, show_command
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import write_atomically
from fork_tool.mac_library.libraries import AppleLibrary, write_stubs
from fork_tool.mac_library.pin import MacPin
from fork_tool.mac_library.places import LIBRARY, MacPlaces, TORCH_LIBRARIES
from fork_tool.machine.machine import Machine, Need

LINKER = Need("lld 19", "links the Mac's library", ("ld64.lld-19", "ld64.lld"), "lld-19")
APPLES_LINKER = Need("ld", "links the Mac's library", ("ld",), "", "xcode-select --install")
INSTALL_NAME = f"@rpath/{LIBRARY}"
RPATH = "@loader_path"
_UNDEFINED = re.compile(r"undefined symbol: (.+)")
_SHOWN = 5


def linker_of(machine: Machine) -> str:
    need = APPLES_LINKER if machine.is_mac else LINKER
    found = need.found()
    if found is None:
        raise ForkToolError(
            f"There is no {need.name} to link the library with: run `{need.remedy(machine)}`, then this again."
        )
    return found


def link_words(
    places: MacPlaces,
    pin: MacPin,
    linker: str,
    objects: Sequence[Path],
    output: Path,
    torch: Path,
    libraries: Sequence[AppleLibrary],
    python_names: Sequence[str],
    exported: Sequence[str],
) -> list[str]:
    """The command that links; paths are from the repository's root."""
    shown = places.shown
    names, exports = output.with_name("objects.txt"), output.with_name("exported.txt")
    write_atomically(names, "".join(f"{shown(path)}\n" for path in objects).encode())
    write_atomically(exports, "".join(f"{name}\n" for name in exported).encode())
    stubs = write_stubs(places, libraries)
    words = [linker, "-dylib", "-arch", "arm64", "-platform_version", "macos", pin.macos, pin.sdk]
    words += ["-install_name", INSTALL_NAME, "-rpath", RPATH, "-dead_strip", "-adhoc_codesign"]
    # As in the official libraries; and symbols of the debugger would name this machine's folders.
    words += ["-no_fixup_chains", "-S"]
    words += ["-exported_symbols_list", shown(exports)]
    # Python's names are the interpreter's, which may be a program or a library of any name.
    words += [word for name in python_names for word in ("-U", name)]
    words += ["-filelist", shown(names)]
    words += [shown(torch / "lib" / name) for name in TORCH_LIBRARIES]
    for library in libraries:
        words += ["-weak_library", shown(stubs[library.name])] if library.weak else [shown(stubs[library.name])]
    return [*words, "-o", shown(output)]


def link(places: MacPlaces, command: Sequence[str], output: Path) -> None:
    """Run the linker; what it lacks is named in one sentence."""
    output.parent.mkdir(parents=True, exist_ok=True)
    show_command([*command[:2], "…", *command[-2:]])
    done = subprocess.run(
        command, cwd=places.repository, capture_output=True, text=True, check=False, env=os.environ | {"LC_ALL": "C"}
    )
    if done.returncode == 0:
        return
    output.unlink(missing_ok=True)
    say(done.stderr.strip())
    lacking = sorted(set(_UNDEFINED.findall(done.stderr)))
    if lacking:
        more = f" and {len(lacking) - _SHOWN} more" if len(lacking) > _SHOWN else ""
        raise ForkToolError(
            f"No library that the Mac has exports {', '.join(lacking[:_SHOWN])}{more}: see above who refers to it, and "
            "fix the source or, where the oldest macOS has the name, scripts/mac_wheel/stubs/libraries.toml."
        )
    raise ForkToolError(
        f"The library could not be linked: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}"
    )
