"""Short lists: what is the backend's own, and those that a person keeps, of what is not confirmed and of guards elsewhere."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from apple_declarations import INCLUDE, ROOT
from apple_facts import LISTS
from fork_tool.next_base.apple import methods_in, properties_in

_ENGINE = ROOT / "aten_mps_overlay" / "aten" / "src" / "ATen" / "mps"
# With a body: a class that is only declared, or gets a category, is Apple's.
_IMPLEMENTATION = re.compile(r"^@implementation\s+(\w+)\b(?!\s*\()(.*?)^@end", re.MULTILINE | re.DOTALL)
# Apple's, in no header: the backend declares it, and asks whether it is there before it is sent.
ASKED_FOR = {"setEnableCommitAndContinue:"}
# The compiler's class of constant strings on the simulator; on a Mac it is __CFConstantStringClassReference.
OF_THE_RUNTIME = {"NSConstantString"}


@dataclass(frozen=True)
class GuardElsewhere:
    """Why a use of newer API without a check around it is right, and the text that must be there for it to be."""

    file: str
    function: str
    names: tuple[str, ...]
    why: str
    in_file: str
    text: str


def guards_elsewhere() -> list[GuardElsewhere]:
    """Return the uses of newer API that are guarded in another place."""
    return [
        GuardElsewhere(**{**row, "names": tuple(row["names"])}) for row in tomllib.loads(LISTS.read_text())["guard"]
    ]


def unconfirmed() -> dict[str, list[str]]:
    """Return the used declarations that no independent source was found for, by kind."""
    found: dict[str, list[str]] = tomllib.loads(LISTS.read_text())["unconfirmed"]
    return found


def own_names(sources: Iterable[str], apple: Iterable[str]) -> tuple[set[str], set[str]]:
    """The classes that sources define, and the methods of these that Apple's headers don't declare."""
    found = [match for text in sources for match in _IMPLEMENTATION.finditer(text)]
    methods = {name for match in found for name in methods_in(match[2])}
    declared = {name for text in apple for name in (*methods_in(text), *properties_in(text))}
    return {match[1] for match in found}, methods - declared


def names_of_the_overlay() -> tuple[set[str], set[str]]:
    """Those of the engine."""
    return own_names(_texts(_ENGINE, ".mm"), _texts(INCLUDE, ".h"))


def _texts(folder: Path, suffix: str) -> list[str]:
    return [path.read_text("utf-8") for path in sorted(folder.rglob(f"*{suffix}"))]


CLASSES_OF_THE_BACKEND, OF_THE_BACKEND = names_of_the_overlay()
