"""Short lists that a person keeps: what is the backend's own, what is not confirmed, and guards of newer API."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass

from apple_facts import LISTS

_LISTS = tomllib.loads(LISTS.read_text())
# Classes and methods that the overlay defines.
CLASSES_OF_THE_BACKEND, OF_THE_BACKEND = set(_LISTS["own"]["classes"]), set(_LISTS["own"]["methods"])
# Apple's, in no header: the backend declares it, and asks whether it is there before it is sent.
ASKED_FOR = {"setEnableCommitAndContinue:"}
# The used declarations that no independent source was found for, by kind.
UNCONFIRMED: dict[str, list[str]] = _LISTS["unconfirmed"]


@dataclass(frozen=True)
class Guard:
    """Why the series may use newer API in a file, and the check of the version that must be there."""

    file: str
    names: list[str]
    why: str
    text: str


GUARDS = [Guard(**row) for row in _LISTS["guard"]]
