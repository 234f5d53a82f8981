"""Short lists: what is the backend's own, and those that a person keeps, of what is not confirmed and of guards elsewhere."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass

from apple_facts import FOLDER
from apple_own import names_of_the_overlay

CLASSES_OF_THE_BACKEND, OF_THE_BACKEND = names_of_the_overlay()
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
    """Return the rows of facts/guards.toml."""
    rows = tomllib.loads((FOLDER / "guards.toml").read_text())["guard"]
    return [GuardElsewhere(**{**row, "names": tuple(row["names"])}) for row in rows]


def unconfirmed() -> dict[str, list[str]]:
    """Return the used declarations that no independent source was found for, by kind."""
    return tomllib.loads((FOLDER / "unconfirmed.toml").read_text())
