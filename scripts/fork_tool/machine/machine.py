"""What kind of machine this is, and what it must have installed."""

import glob
import os
import platform
import re
import shutil
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from fork_tool.common.errors import ForkToolError

OK, LACKS, LATER = "ok", "lacks", "not yet"


@dataclass(frozen=True)
class Machine:
    """Operating system, processor and, on Linux, the distribution."""

    system: str
    processor: str
    distribution: str = ""
    family: frozenset[str] = frozenset()

    @property
    def is_mac(self) -> bool:
        return self.system == "Darwin"

    @property
    def is_debian(self) -> bool:
        return bool(self.family & {"debian", "ubuntu"})

    @property
    def runs_simulator(self) -> bool:
        return self.system == "Linux" and self.processor == "x86_64"

    def refuse_unsupported(self) -> None:
        """Fail on a machine that has neither the device nor the simulator."""
        if self.is_mac:
            if self.processor != "arm64":
                raise ForkToolError(
                    f"This Mac's processor is {self.processor}: PyTorch's MPS backend and its wheels want Apple silicon; use such a Mac or a Linux x86-64 machine."
                )
            return
        if not self.runs_simulator:
            raise ForkToolError(
                f"This is {self.system} on {self.processor}: the simulator runs on Linux x86-64, the device on a Mac with Apple silicon; use one of the two. "
                "(fetch, apply, refresh, verify and export work here too.)"
            )


def this_machine(os_release: Path = Path("/etc/os-release")) -> Machine:
    values = {}
    if os_release.is_file():
        for match in re.finditer(r'^(\w+)="?(.*?)"?$', os_release.read_text("utf-8"), re.MULTILINE):
            values[match[1]] = match[2]
    family = frozenset([values.get("ID", ""), *values.get("ID_LIKE", "").split()])
    return Machine(platform.system(), platform.machine(), values.get("PRETTY_NAME", ""), family)


@dataclass(frozen=True)
class Need:
    """Something that must be installed, and the package that brings it."""

    name: str
    purpose: str
    # Programs, or patterns of files: one of them is enough.
    places: tuple[str, ...]
    debian: str
    mac: str = ""

    def found(self) -> str | None:
        found = (next(glob.iglob(place), None) if "/" in place else shutil.which(place) for place in self.places)
        return next(filter(None, found), None)

    def remedy(self, machine: Machine) -> str:
        if machine.is_mac:
            return self.mac
        if machine.is_debian:
            return "make setup"
        return f"install what Debian calls {self.debian}"


_PYTHON = f"python{sys.version_info[0]}.{sys.version_info[1]}"
_COMMON = (
    Need("git", "the checkout and its commits", ("git",), "git", "xcode-select --install"),
    Need("make", "the targets of the Makefile", ("make",), "make", "xcode-select --install"),
)
_LINUX = (
    Need("cmake", "builds the simulator", ("cmake",), "cmake"),
    Need("ninja", "builds the simulator", ("ninja",), "ninja-build"),
    Need("clang 19", "compiles the simulator and Metal shaders", ("clang++-19",), "clang-19"),
    Need(
        "clang's sanitizers",
        "find errors of memory and threads in the tests",
        ("/usr/lib/llvm-19/lib/clang/*/lib/*/libclang_rt.asan-x86_64.so",),
        "libclang-rt-19-dev",
    ),
    Need("lld 19", "links the simulator", ("ld.lld-19",), "lld-19"),
    Need("ccache", "makes the second build quick", ("ccache",), "ccache"),
    Need("valgrind", "counts the benchmark's instructions", ("valgrind",), "valgrind"),
    Need("fmt headers", "included by PyTorch's sources", ("/usr/include/fmt/format.h",), "libfmt-dev"),
    Need(
        "GoogleTest's sources",
        "the backend's C++ tests",
        ("/usr/src/googletest/googletest/src/gtest-all.cc",),
        "libgtest-dev",
    ),
    Need(
        "Python headers",
        "for the device's Python bindings",
        (f"{sysconfig.get_path('include')}/Python.h",),
        f"{_PYTHON}-dev",
    ),
)
# Installed only for the suite that opens pages.
BROWSER = Need(
    "Chromium", "opens pages in the tests", ("chromium-headless-shell", "google-chrome"), "chromium-headless-shell"
)
_TOOLS = ("/Library/Developer/CommandLineTools", "/Applications/Xcode.app")
_MAC = (Need("command line tools", "compiler and Metal", _TOOLS, "", "xcode-select --install"),)


def needs_of(machine: Machine) -> tuple[Need, ...]:
    return _COMMON + (_MAC if machine.is_mac else _LINUX)


def as_administrator(command: list[str]) -> list[str]:
    """The command as it must be run to change the system."""
    if os.geteuid() == 0:
        return command
    if shutil.which("sudo"):
        return ["sudo", *command]
    raise ForkToolError(f"This needs root and there is no sudo: run `{' '.join(command)}` as root, then this again.")


@dataclass(frozen=True)
class Finding:
    """`LATER` is made by the commands themselves when they need it."""

    name: str
    state: str
    detail: str
    remedy: str = ""


def judge(name: str, good: bool, detail: str, remedy: str) -> Finding:
    """What was found; the remedy where it is not good."""
    return Finding(name, OK, detail) if good else Finding(name, LACKS, detail, remedy)
