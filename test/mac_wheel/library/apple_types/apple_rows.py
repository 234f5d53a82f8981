"""The rows of a table of facts that a comparison can use, one on a line."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from apple_declarations import CHECKOUT, INCLUDE
from apple_uses import sources_of


def used_words() -> set[str]:
    """Return the words of the simulator's headers and of the backend's sources, with each property's setter."""
    texts = [path.read_text() for path in (*INCLUDE.rglob("*.h"), *sources_of(CHECKOUT))]
    words = set(re.findall(r"\w+", " ".join(texts)))
    return words | {f"set{word[0].upper()}{word[1:]}" for word in words}


def keep(rows: Mapping[str, object], words: set[str]) -> dict[str, object]:
    """Keep rows whose name, or whose selector `-[Owner take:with:]`, is made of the given words."""
    return {name: row for name, row in rows.items() if set(re.findall(r"\w+", name.rpartition(" ")[2])) <= words}


def write(path: Path, table: Mapping[str, object]) -> None:
    """Write a table of sections as JSON, each row on a line of its own."""
    words = used_words()
    sections = []
    for name, section in sorted(table.items()):
        if isinstance(section, dict) and name != "versions":
            kept = sorted(keep(section, words).items())
            rows = ",\n".join(f"  {json.dumps(key)}: {json.dumps(row)}" for key, row in kept)
            sections.append(f" {json.dumps(name)}: {{\n{rows}\n }}")
            print(f"{path.name}: {len(kept)} of {len(section)} {name} are used")
        else:
            sections.append(f" {json.dumps(name)}: {json.dumps(section)}")
    path.write_text("{\n" + ",\n".join(sections) + "\n}\n")
