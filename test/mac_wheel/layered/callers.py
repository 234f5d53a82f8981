"""Who calls the official backend inside the official libtorch_cpu.dylib: read from its machine code.

    .venv/bin/python test/mac_wheel/layered/callers.py …/torch/lib/libtorch_cpu.dylib

Prints each function outside of the backend from which a branch leads to a function of it. Only exported functions have
names, so a caller is named by the exported function before it, which of a file of local functions is the last one of
the file before: the wrappers of RegisterMPS.cpp appear under such a name.
"""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from bisect import bisect_right
from collections import defaultdict
from pathlib import Path

import numpy as np

_BACKEND = re.compile(r"N[KVr]*2at3mps|2at6native3mps|_mps|mps_|MPS|5torch3mps")
# Operators and questions that any part of torch may ask.
_NOT_BACKEND = re.compile(r"TensorBase|at4_ops|_4call|MPSHooksRegistry|getMPSHooks|is_mps")
_SEGMENT = 0x19
_BRANCHES = (0x25, 0x05)


def text_section(content: bytes) -> tuple[int, int, int]:
    """Address, bytes and offset of the code of a 64-bit Mach-O library."""
    position = 32
    for _ in range(struct.unpack_from("<I", content, 16)[0]):
        command, size = struct.unpack_from("<II", content, position)
        sections = struct.unpack_from("<I", content, position + 64)[0] if command == _SEGMENT else 0
        for section in range(position + 72, position + 72 + 80 * sections, 80):
            if content[section : section + 16].rstrip(b"\0") == b"__text":
                address, length, offset = struct.unpack_from("<QQI", content, section + 32)
                return address, length, offset
        position += size
    raise ValueError("the library has no code")


def callers(library: Path) -> dict[str, set[str]]:
    """Mangled names of callers, each with the functions of the backend that it branches to."""
    content = library.read_bytes()
    address, length, offset = text_section(content)
    words = np.frombuffer(content, dtype="<u4", count=length // 4, offset=offset)
    places = np.nonzero(np.isin(words >> 26, _BRANCHES))[0]
    distance = (words[places] & 0x3FFFFFF).astype(np.int64)
    distance[distance >= 1 << 25] -= 1 << 26
    sources = address + 4 * places.astype(np.int64)
    targets = sources + 4 * distance
    listed = subprocess.run(["llvm-nm", "-gU", str(library)], capture_output=True, text=True, check=True).stdout
    symbols = sorted((int(line.split()[0], 16), line.split()[2]) for line in listed.splitlines())
    starts, names = [start for start, _ in symbols], dict(symbols)
    backend = [start for start, name in symbols if _BACKEND.search(name) and not _NOT_BACKEND.search(name)]
    found: defaultdict[str, set[str]] = defaultdict(set)
    reached = np.isin(targets, np.array(backend))
    for source, target in zip(sources[reached], targets[reached]):
        caller = symbols[bisect_right(starts, int(source)) - 1][1]
        if not _BACKEND.search(caller):
            found[caller].add(names[int(target)])
    return found


if __name__ == "__main__":
    for caller, functions in callers(Path(sys.argv[1])).items():
        print(caller, "->", f"{len(functions)} functions" if len(functions) > 8 else " ".join(sorted(functions)))
