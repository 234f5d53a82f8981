"""Structs have the size, the alignment and the offsets that Apple's C++ headers give them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from apple_declarations import BUILD, compiler_words, Declarations, FRAMEWORKS
from apple_facts import FOLDER
from apple_uses import Uses

Layout = dict[str, dict[str, object]]


def assertions(structs: Layout) -> str:
    """Return a static_assert for the size, and one for the offset of every field by its place."""
    lines = [f"#import <{name}/{name}.h>" for name in FRAMEWORKS]
    lines.append("#include <cstddef>")
    for name, layout in sorted(structs.items()):
        lines.append(f'static_assert(sizeof({name}) == {layout["size"]}, "size of {name}");')
        offset = 0
        fields = layout["fields"]
        assert isinstance(fields, list)
        for field, code in fields:
            lines.append(f'static_assert(offsetof({name}, {field}) == {offset}, "offset of {name}.{field}");')
            offset += size_of(code)
    return "\n".join(lines) + "\n"


def size_of(code: str) -> int:
    """Return the bytes of a field without gaps."""
    sizes = {"B": 1, "c": 1, "C": 1, "s": 2, "S": 2, "i": 4, "I": 4, "f": 4, "q": 8, "Q": 8, "d": 8}
    if code.startswith("{"):
        return sum(size_of(item) for item in code[1:-1])
    return sizes[code]


def compile_text(text: str, folder: Path) -> str:
    """Return what the compiler of the simulator's build says."""
    source = folder / "layouts.mm"
    source.write_text(text)
    command = ["clang++-19", *compiler_words(BUILD / "compile_commands.json"), "-fsyntax-only", str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def layouts(declared: Declarations, words: set[str]) -> Layout:
    """Return Apple's layouts of the structs that the backend names and the headers declare."""
    every: Layout = json.loads((FOLDER / "metal_cpp.json").read_text())["structs"]
    return {name: layout for name, layout in every.items() if name in declared.structs and name in words}


def test_layouts(tmp_path: Path, declared: Declarations, uses: Uses) -> None:
    structs = layouts(declared, set(uses.words))
    assert "MTLSize" in structs
    # The planted fault comes along, so that the headers are compiled once.
    structs_and_fault = assertions(structs) + 'static_assert(sizeof(MTLSize) == 12, "size of MTLSize, planted");\n'
    said = compile_text(structs_and_fault, tmp_path)
    errors = [line for line in said.splitlines() if "error:" in line]
    assert len(errors) == 1, said
    assert "size of MTLSize, planted" in errors[0]
