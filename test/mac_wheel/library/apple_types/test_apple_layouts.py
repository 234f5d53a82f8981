"""Structs have the size, the alignment and the offsets that Apple's C++ headers give them."""

from __future__ import annotations

import os
import subprocess
import tomllib
from pathlib import Path

from apple_declarations import BUILD, compiler_words, Declarations, FRAMEWORKS
from apple_facts import FOLDER
from apple_uses import Uses
from fork_tool.mac_library.sources import DEFINITIONS, LANGUAGE
from made_wheel import Made

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


def compile_for_a_mac(made: Made, text: str, folder: Path) -> str:
    """Return what the compiler of the Mac's library says, for the library's processor and with its headers of Apple's."""
    source = folder / "layouts.mm"
    source.write_text(text)
    places, pin = made.bench.places, made.bench.pin
    command = [str(places.compiler), "-target", f"aarch64-macos.{pin.macos}", *LANGUAGE]
    command += [*(f"-D{definition}" for definition in DEFINITIONS), "-include", "mach/vm_page_size.h"]
    command += [f"-I{places.include}", "-x", "objective-c++", "-c", str(source), "-o", str(folder / "layouts.o")]
    done = subprocess.run(
        command,
        env=os.environ | places.compiler_environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr


def layouts(declared: Declarations, words: set[str]) -> Layout:
    """Return Apple's layouts of the structs that the backend names and the headers declare."""
    every: Layout = tomllib.loads((FOLDER / "metal_cpp.toml").read_text())["metal-cpp"]["structs"]
    return {name: layout for name, layout in every.items() if name in declared.structs and name in words}


# It comes along, so that the headers are compiled once.
PLANTED = 'static_assert(sizeof(MTLSize) == 12, "size of MTLSize, planted");\n'


def only_the_planted_fault(said: str) -> None:
    errors = [line for line in said.splitlines() if "error:" in line]
    assert len(errors) == 1, said
    assert "size of MTLSize, planted" in errors[0]


def test_layouts(tmp_path: Path, declared: Declarations, uses: Uses) -> None:
    structs = layouts(declared, set(uses.words))
    assert "MTLSize" in structs
    only_the_planted_fault(compile_text(assertions(structs) + PLANTED, tmp_path))


def test_layouts_for_a_mac(made: Made, tmp_path: Path, declared: Declarations, uses: Uses) -> None:
    """Of the same structs, by the compiler and for the processor of the library."""
    structs = layouts(declared, set(uses.words))
    only_the_planted_fault(compile_for_a_mac(made, assertions(structs) + PLANTED, tmp_path))
