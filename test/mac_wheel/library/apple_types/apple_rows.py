"""The rows of a table of facts that a comparison uses."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from pathlib import Path

from apple_check import keys_of, places_of
from apple_declarations import BUILD, CHECKOUT, compiler_words, read
from apple_facts import GROUPED
from apple_uses import gather

# Sent by the library for a Mac alone, where int64_t is long long.
OF_THE_LIBRARY = {"numberWithLongLong:", "numberWithUnsignedLongLong:"}


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


def write(path: Path, source: str, table: Mapping[str, Mapping[str, object]]) -> None:
    """Write the used rows of what a source says, by section, as TOML."""
    used = used_rows()
    text = "# Made by remake_facts.py. The last word of a method is the macOS that brought it.\n"
    for section, rows in sorted(table.items()):
        kept = {name: row for name, row in sorted(rows.items()) if name in used[section]}
        print(f"{path.name}: {len(kept)} of {len(rows)} {section} are used")
        text += f"\n[{source}.{section}]\n"
        if section in GROUPED:
            groups: dict[object, list[str]] = {}
            for name, row in kept.items():
                groups.setdefault(row, []).append(name)
            text += "".join(_group(_value(key), names) for key, names in groups.items())
        else:
            text += "".join(f"{_value(name)} = {_value(row)}\n" for name, row in kept.items())
    path.write_text(text)


def _group(key: str, names: list[str]) -> str:
    listed = ", ".join(map(_value, names))
    if len(key) + len(listed) < 110:
        return f"{key} = [{listed}]\n"
    lines = textwrap.fill(f"{listed},", 120, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    return f"{key} = [\n{lines}\n]\n"


def _value(row: object) -> str:
    if isinstance(row, dict):
        return "{ " + ", ".join(f"{key} = {_value(value)}" for key, value in row.items()) + " }"
    return json.dumps(row)
