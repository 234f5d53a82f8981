"""The backend's Metal kernels: compiled by the official wheel, unless the series changes one.

The official libtorch_cpu has the base's kernels in two sections, compiled for two versions of Metal's language. The base's
own code reads them there by the name of that library, which is in the process of the wheel that is made here, too. So
kernels that are the base's need not be in our library at all.
"""

from __future__ import annotations

import os
import re
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fork_tool.base.checkout import Checkout
from fork_tool.common.errors import ForkToolError
from fork_tool.mac_library.places import MacPlaces
from fork_tool.mac_library.tools import read_library

# The section for macOS 14 and newer, and the other one, with what the language's macro for its version is in each.
SECTIONS = {"metal_bfloat": 310, "metal_basic": 300}
SEGMENT = "__TEXT"
# What the library takes of macOS when it reads the sections.
READS_SECTIONS = "_getsectiondata"
FOLDER = "aten/src/ATen/native/mps"
_HEADERS = ("", "aten/src/")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"].*$', re.MULTILINE)
_NAMED = re.compile(r'\bhost_name\s*\(\s*((?:"[^"]*"\s*)+)\)')
_KERNEL = re.compile(r"\bkernel\s+void\s+(\w+)\s*\(")
_MAGIC = b"MTLB"
_SHOWN = 5


def kernel_files(checkout: Path) -> list[Path]:
    """The backend's files of kernels."""
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


def function_names(content: bytes) -> list[str]:
    """The functions that a compiled library of Metal's lists; ValueError says what is wrong with it."""
    if content[:4] != _MAGIC:
        raise ValueError("is no library of Metal's")
    try:
        size, at = struct.unpack_from("<QQ", content, 16)
        if size != len(content):
            raise ValueError(f"has {len(content):,} bytes and says that it has {size:,}")
        (count,) = struct.unpack_from("<I", content, at)
        at += 4
        names = []
        for _ in range(count):
            (length,) = struct.unpack_from("<I", content, at)
            names.append(_name_in(content[at + 4 : at + length]))
            at += length
    except struct.error:
        raise ValueError("is cut off in the list of its functions") from None
    return names


def _name_in(entry: bytes) -> str:
    """The name in the description of a function, whose fields are a word, a length, and so many bytes."""
    at = 0
    while at + 6 <= len(entry):
        (length,) = struct.unpack_from("<H", entry, at + 4)
        if entry[at : at + 4] == b"NAME":
            return entry[at + 6 : at + 6 + length].rstrip(b"\0").decode()
        at += 6 + length
    raise ValueError("has a function without a name")


def sections_of(lief: Any, library: Path) -> dict[str, bytes]:
    """The sections with kernels that a library has."""
    binary = read_library(lief, library)
    return {
        section.name: bytes(section.content)
        for section in binary.sections
        if section.segment_name == SEGMENT and section.name in SECTIONS
    }


def wanted_names(places: MacPlaces, checkout: Path, metal: int) -> set[str]:
    """The functions that the kernels' sources define for a version of the language, like 310."""
    found: set[str] = set()
    for file in kernel_files(checkout):
        text = _expanded(places, checkout, file, metal)
        found |= {"".join(re.findall(r'"([^"]*)"', match[1])) for match in _NAMED.finditer(text)}
        for match in _KERNEL.finditer(text):
            # Templates have names where they are instantiated.
            statement = re.split(r"[;}]", text[: match.start()])[-1]
            if "template" not in statement and "host_name" not in statement:
                found.add(match[1])
    return found


def _expanded(places: MacPlaces, checkout: Path, file: Path, metal: int) -> str:
    """A file after the preprocessor, without the headers of Metal's own."""
    known = set(_included(checkout, file))

    def keep(match: re.Match[str]) -> str:
        return match[0] if any(name.endswith(match[1]) for name in known) else ""

    words = ["-E", "-P", "-x", "c++", "-nostdinc", "-nostdinc++", f"-D__METAL_VERSION__={metal}", "-w"]
    words += [f"-I{checkout / header}" for header in _HEADERS] + [f"-I{file.parent}"]
    done = subprocess.run(
        [str(places.compiler), *words, "-"],
        input=_INCLUDE.sub(keep, file.read_text()),
        env=os.environ | places.compiler_environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no reason given"])[0].rpartition("error: ")[2]
        raise ForkToolError(f"{file.name} could not be read for the names of its kernels ({said}): fix that file.")
    return done.stdout


def kernel_findings(sections: dict[str, bytes], wanted: dict[str, set[str]]) -> list[str]:
    """A sentence for each fault of the official wheel's compiled kernels; `wanted` has the functions by section."""
    found = []
    for section, names in wanted.items():
        where = f"{SEGMENT},{section} of the official libtorch_cpu.dylib"
        if section not in sections:
            found.append(f"there is no {where}: no kernel would be found")
            continue
        try:
            has = set(function_names(sections[section]))
        except ValueError as problem:
            found.append(f"{where} {problem}")
            continue
        lacking, other = sorted(names - has), sorted(has - names)
        found += [f"{where} lacks the kernel {name}" for name in lacking]
        found += [f"{where} has the kernel {name}, which the sources don't" for name in other]
    return found


def mode_findings(taken: set[str], changed: list[str]) -> list[str]:
    """Whether the library reads the official kernels where it should, and only there; `taken` are the names it imports."""
    reads = READS_SECTIONS in taken
    if changed and reads:
        return ["it reads the official wheel's kernels, though the series changes some"]
    if not changed and not reads:
        return ["it does not read the official wheel's kernels, which are those that it needs"]
    return []
