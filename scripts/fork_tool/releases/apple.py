"""What the release's backend uses of Apple's, and the simulator does not know: a list that is kept and compared.

The simulator knows what its library names. What it names and does not do says so when it is called; that is not looked
at here.
"""

import tomllib
from pathlib import Path

from fork_tool.common.errors import ForkToolError
from fork_tool.mac_library.sources import FRAMEWORK_HEADERS
from fork_tool.releases.wheel import Facts

# By kind: classes, selectors, functions.
AppleNames = dict[str, set[str]]
KINDS = ("classes", "selectors", "functions")
_CLASS = "_OBJC_CLASS_$_"
# Libraries of macOS whose functions a simulator of the device would have to have.
_FRAMEWORKS = (*FRAMEWORK_HEADERS, "IOKit")


def used_names(facts: Facts) -> AppleNames:
    taken = {
        name
        for library, names in facts.imports.items()
        if any(f"/{framework}.framework/" in library for framework in _FRAMEWORKS)
        for name in names
    }
    return {
        "classes": {name.removeprefix(_CLASS) for name in taken if name.startswith(_CLASS)},
        "selectors": set(facts.selectors),
        "functions": {name.removeprefix("_") for name in taken if not name.startswith("_OBJC_")},
    }


def lacking_names(used: AppleNames, simulator: Path) -> AppleNames:
    """Those of the names that are no string in the simulator's library, which has all that it declares as strings."""
    if not simulator.is_file():
        raise ForkToolError(f"{simulator} is missing: run `make simulator`, then this again.")
    known = set(simulator.read_bytes().split(b"\0"))
    return {
        kind: {name for name in used[kind] if not {name.encode(), f"_OBJC_CLASS_{name}".encode()} & known}
        for kind in KINDS
    }


def load_list(path: Path) -> AppleNames:
    try:
        values = tomllib.loads(path.read_text("utf-8"))
        return {kind: set(values[kind]) for kind in KINDS}
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError) as problem:
        raise ForkToolError(
            f"{path} can't be read ({problem}): bring it back with `git checkout -- {path.name}`."
        ) from None


def apple_findings(lacking: AppleNames, kept: AppleNames, shown: str) -> list[str]:
    """A sentence for each difference between what the simulator lacks and what the list says."""
    found = []
    if new := text_of({kind: lacking[kind] - kept[kind] for kind in KINDS}):
        found.append(f"the backend uses what the simulator does not know and {shown} does not list: {new}")
    if gone := text_of({kind: kept[kind] - lacking[kind] for kind in KINDS}):
        found.append(f"{shown} lists what is no longer used, or what the simulator knows by now: {gone}; take it out")
    return found


def text_of(names: AppleNames) -> str:
    """The names by kind; empty if there are none."""
    return "; ".join(f"{kind} {', '.join(sorted(names[kind]))}" for kind in KINDS if names[kind])
