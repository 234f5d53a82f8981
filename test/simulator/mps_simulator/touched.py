"""Which of the backend's sources ran: from functions that were entered to the files they are in."""

from __future__ import annotations

import re
import subprocess
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

# Address, load address, size, alignment, object and function: each has a section of its own.
_PIECE = re.compile(r"\s*([0-9a-f]+)\s+[0-9a-f]+\s+([0-9a-f]+)\s+\d+\s+(\S+\.o):\(\.text\.(\S+)\)$")

OPERATIONS = "aten/src/ATen/native/mps/operations"

# Made by the compiler: a header's blocks are in each object, and what runs them in one.
_NOT_OWN = re.compile(r"_block_invoke|_helper_block|^_GLOBAL_|^sancov\.|^__cxx_global")


def own_functions(target: Path) -> set[str]:
    """Returns the functions that only this object has: not those of headers, which run for other objects too."""
    listed = subprocess.run(["nm", "--defined-only", target], check=True, capture_output=True, text=True).stdout
    symbols = (line.split() for line in listed.splitlines())
    return {name for _, kind, name in symbols if kind in "Tt" and not _NOT_OWN.search(name)}


def files_of(offsets: Iterable[int], link_map: Path, own: Callable[[Path], set[str]] = own_functions) -> set[str]:
    """Returns the names of the sources whose own functions lie at the offsets, like `BinaryOps.mm`.

    Args:
        offsets: of functions in the library.
        link_map: what lld wrote about the library, in the folder that its objects are named from.
        own: tells the functions of an object.
    """
    pieces = []
    with link_map.open() as lines:
        for line in lines:
            if found := _PIECE.match(line):
                start, size = int(found[1], 16), int(found[2], 16)
                pieces.append((start, start + size, found[3], found[4]))
    pieces.sort()
    starts = [piece[0] for piece in pieces]
    entered: defaultdict[str, set[str]] = defaultdict(set)
    for offset in offsets:
        index = bisect_right(starts, offset) - 1
        if index >= 0 and offset < pieces[index][1]:
            entered[pieces[index][2]].add(pieces[index][3])
    touched = (name for name, functions in entered.items() if functions & own(link_map.parent / name))
    return {Path(name).stem for name in touched}


def sources_for(test_file: str, checkout: Path) -> set[str]:
    """Returns the sources of the backend's operations that one of upstream's test files must go through."""
    sources = {path.name for path in (checkout / OPERATIONS).iterdir() if path.suffix in (".mm", ".cpp")}
    of_optimizers = {name for name in sources if name.startswith("Fused")}
    return of_optimizers if test_file == "test_optim.py" else sources - of_optimizers
