"""The backend's Metal kernels: compiled by the official wheel, unless the series changes one.

The official libtorch_cpu has the base's kernels in two sections, compiled for two versions of Metal's language. The base's
own code reads them there by the name of that library, which is in the process of the wheel that is made here, too. So
kernels that are the base's need not be in our library at all.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from fork_tool.base.checkout import Checkout
from fork_tool.mac_library.symbols import external_symbols
from fork_tool.mac_library.tools import read_library

# For macOS 14 and newer, and for older ones.
SECTIONS = ("metal_bfloat", "metal_basic")
# What the library takes of macOS when it reads the sections.
READS_SECTIONS = "_getsectiondata"
FOLDER = "aten/src/ATen/native/mps"
_HEADERS = ("", "aten/src/")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"].*$', re.MULTILINE)
_MAGIC = b"MTLB"
_SHOWN = 5


def kernel_files(checkout: Path) -> list[Path]:
    return sorted((checkout / FOLDER).rglob("*.metal"))


def changed_kernels(checkout: Checkout) -> list[str]:
    """The files of kernels, and those that they include, that are not as in the base; the official ones lack these."""
    directory = checkout.git.directory
    in_base = checkout.git.names("ls-tree", "-r", "-z", "--name-only", checkout.base, "--", FOLDER)
    waiting = [str(path.relative_to(directory)) for path in kernel_files(directory)]
    waiting += [name for name in in_base if name.endswith(".metal")]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += _included(directory, directory / name) if (directory / name).is_file() else []
    return sorted(name for name in seen if _differs(checkout, name))


def _differs(checkout: Checkout, name: str) -> bool:
    """By the bytes: git's own list of what differs may have files that were only touched."""
    path = checkout.git.directory / name
    base = checkout.git.run("show", f"{checkout.base}:{name}", check=False)
    return (base.stdout if base.returncode == 0 else None) != (path.read_bytes() if path.is_file() else None)


def _included(checkout: Path, file: Path) -> Iterable[str]:
    for name in _INCLUDE.findall(file.read_text(errors="replace")):
        for folder in (file.parent, *(checkout / header for header in _HEADERS)):
            path = (folder / name).resolve()
            if path.is_file() and path.is_relative_to(checkout.resolve()):
                yield str(path.relative_to(checkout.resolve()))
                break


def describe_kernels(changed: list[str]) -> str:
    """Where the library has its kernels from, for the report."""
    if not changed:
        return "compiled, the official wheel's"
    more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
    return f"source, compiled at first use: the series changes {', '.join(changed[:_SHOWN])}{more}"


def kernel_findings(official: Path, library: Path, changed: list[str]) -> list[str]:
    """What is wrong with where a library has its kernels from; `official` is the wheel's libtorch_cpu."""
    reads = READS_SECTIONS in {symbol.name for symbol in external_symbols(read_library(library), defined=False)}
    if changed:
        return ["it reads the official wheel's kernels, though the series changes some"] if reads else []
    if not reads:
        return ["it does not read the official wheel's kernels, which are those that it needs"]
    binary = read_library(official)
    there = {section.name: bytes(section.content)[:4] for section in binary.sections}
    return [f"{official.name} has no kernels in {name}" for name in SECTIONS if there.get(name) != _MAGIC]
