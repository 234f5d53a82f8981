"""Short lists that a person keeps: what is the backend's own, what nobody confirms, which guards are elsewhere."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass

from apple_facts import FOLDER

# Methods that the backend declares for classes of its own, so that no header of Apple's has them.
OF_THE_BACKEND = {
    "bindingAtIndex:",
    "initWithEncoder:recorder:",
    "recordDispatch:size:threadgroup:",
    "recordUseOf:usage:",
}
CLASSES_OF_THE_BACKEND = {"MPSRecordingEncoder"}
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
