"""The rows of a table of facts that a comparison uses, one on a line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from apple_check import keys_of, places_of
from apple_declarations import BUILD, CHECKOUT, compiler_words, read
from apple_lists import OF_THE_LIBRARY
from apple_uses import gather


def used_rows() -> dict[str, set[str]]:
    """Return the names of the rows that the comparisons look up, by the table's section."""
    declared, uses = read(compiler_words(BUILD / "compile_commands.json")), gather(BUILD, CHECKOUT)
    sent = uses.selectors.keys() | OF_THE_LIBRARY
    methods = [method for method in declared.methods.values() if method.selector in sent]
    words = set(uses.words)
    return {
        "methods": {key for method in methods for key in keys_of(method, declared)},
        "types": {key for method in methods for key in places_of(method, declared)},
        "classes": set(uses.classes),
        "superclasses": set(declared.superclasses),
        "constants": words & declared.constants.keys(),
        "enums": words | {declared.constants[word] for word in words if word in declared.constants},
        "structs": words,
    }


def write(path: Path, table: Mapping[str, object]) -> None:
    """Write the used rows of a table of sections as JSON, each on a line of its own."""
    used = used_rows()
    sections = []
    for name, section in sorted(table.items()):
        if isinstance(section, dict) and name in used:
            kept = sorted((key, row) for key, row in section.items() if key in used[name])
            rows = ",\n".join(f"  {json.dumps(key)}: {json.dumps(row)}" for key, row in kept)
            sections.append(f" {json.dumps(name)}: {{\n{rows}\n }}")
            print(f"{path.name}: {len(kept)} of {len(section)} {name} are used")
        else:
            sections.append(f" {json.dumps(name)}: {json.dumps(section)}")
    path.write_text("{\n" + ",\n".join(sections) + "\n}\n")
