"""What a Mac says about itself, as far as building torch depends on it."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from dataclasses import dataclass

from fork_tool.base.pin import Pin
from fork_tool.common.processes import output_of
from fork_tool.machine.machine import Finding, judge, OK
from fork_tool.paths import Layout

GIB = 1 << 30
# Estimates, not measured: a clone with its submodules, the objects of a release build, the wheel twice;
# and what is still to come when the clone and the objects are there.
NEEDED_DISK = 20 * GIB
NEEDED_DISK_LATER = 5 * GIB
NEEDED_MEMORY = 8 * GIB
_KEPT_FOR_SYSTEM = 2 * GIB
_PER_JOB = 3 * GIB // 2
_TOOLS = "xcode-select --install"


@dataclass(frozen=True)
class MacFacts:
    """Empty where the Mac gave no answer."""

    macos: str
    tools: str
    sdk: str
    compiler: str
    # Its version, empty without one: what it compiles is not in a build without it.
    metal: str
    memory: int
    cores: int
    disk: int
    python: tuple[int, int]
    place: str = ""
    under_way: bool = False


def gather(layout: Layout) -> MacFacts:
    """Ask this machine; on another system most answers are empty."""
    existing = layout.build if layout.build.exists() else layout.root
    return MacFacts(
        macos=platform.mac_ver()[0],
        tools=answer("xcode-select", "--print-path"),
        sdk=answer("xcrun", "--sdk", "macosx", "--show-sdk-version"),
        compiler=answer("xcrun", "clang", "--version").partition("\n")[0],
        metal=answer("xcrun", "metal", "--version").partition("\n")[0],
        memory=memory(),
        cores=os.cpu_count() or 1,
        disk=shutil.disk_usage(existing).free,
        python=sys.version_info[:2],
        place=str(layout.root),
        under_way=(layout.checkout / "build" / "build.ninja").exists(),
    )


def jobs_for(facts: MacFacts) -> int:
    """How many compilers fit into the memory at once."""
    return max(1, min(facts.cores, (facts.memory - _KEPT_FOR_SYSTEM) // _PER_JOB))


def examine(facts: MacFacts, pin: Pin) -> list[Finding]:
    """What the build needs, and how to get what is lacking."""
    build = pin.wheel_build
    disk = NEEDED_DISK_LATER if facts.under_way else NEEDED_DISK
    return [
        judge(
            "macOS",
            at_least(facts.macos, build.macos),
            facts.macos or "no version",
            f"needed: {build.macos} or newer; update macOS in System Settings, General, Software Update",
        ),
        judge(
            "compiler",
            bool(facts.tools and facts.compiler),
            facts.compiler or f"none in {facts.tools or 'any developer directory'}",
            f"{_TOOLS}; if Xcode is there, `sudo xcodebuild -license accept`",
        ),
        judge(
            "macOS SDK",
            at_least(facts.sdk, build.sdk),
            facts.sdk or "none",
            f"needed: {build.sdk} or newer; `{_TOOLS}`, or update the command line tools in Software Update",
        ),
        # Without it the base's own kernels are compiled when the program runs.
        Finding("Metal compiler", OK, facts.metal or "not there; kernels are compiled at run time"),
        judge(
            "memory",
            facts.memory >= NEEDED_MEMORY,
            f"{facts.memory / GIB:.0f} GiB, enough for {jobs_for(facts)} compilers at once",
            f"needed: {NEEDED_MEMORY // GIB} GiB; build on a Mac that has them and copy the wheel",
        ),
        judge(
            "disk for the wheel",
            facts.disk >= disk,
            f"{facts.disk / GIB:.0f} GiB free",
            f"needed: {disk // GIB} GiB; make room, or put this repository on a larger disk",
        ),
        judge(
            "folder",
            not re.search(r"\s", facts.place),
            facts.place or "unknown",
            "there is a space in the path, in which the base may not build; move this repository to a path without one, "
            "remove .venv there, and run this again",
        ),
        judge(
            "Python for the wheel",
            _versions(build.python[0]) <= facts.python <= _versions(build.python[1]),
            ".".join(map(str, facts.python)),
            f"needed: {build.python[0]} to {build.python[1]}; remove .venv and name one with MPSFORK_PYTHON=/path/to/python",
        ),
    ]


def at_least(found: str, needed: str) -> bool:
    """Whether a version is there and as new as the other."""
    return bool(found) and _versions(found) >= _versions(needed)


def _versions(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())


def memory() -> int:
    """Bytes of memory; 0 if the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return int(answer("sysctl", "-n", "hw.memsize") or 0)


def answer(*command: str) -> str:
    """What a program prints; empty if it is not there or fails."""
    return output_of(command) or ""
