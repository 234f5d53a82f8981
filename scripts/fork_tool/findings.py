"""One row of what a look at the machine found."""

from __future__ import annotations

from dataclasses import dataclass

OK, LACKS, LATER = "ok", "lacks", "not yet"


@dataclass(frozen=True)
class Finding:
    """`LATER` is made by the commands themselves when they need it."""

    name: str
    state: str
    detail: str
    remedy: str = ""
