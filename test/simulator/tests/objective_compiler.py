"""Compiles Objective-C++ as the build does, for questions about the headers."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from functools import cache
from pathlib import Path

from mps_simulator._build import build_directory

INCLUDE = Path(__file__).resolve().parents[1] / "include"
FRAMEWORKS = ("Metal", "MetalPerformanceShaders", "MetalPerformanceShadersGraph")
IMPORTS = "".join(f"#import <{framework}/{framework}.h>\n" for framework in ("Foundation", *FRAMEWORKS))


@cache
def _command() -> list[str]:
    """Returns the compiler and its flags, as the build used them for a self-test."""
    entries = json.loads((build_directory() / "compile_commands.json").read_text())
    entry = next(entry for entry in entries if entry["file"].endswith("tests/metal_objects.mm"))
    words = shlex.split(entry["command"])
    start = next(i for i, word in enumerate(words) if re.search(r"clang\+\+[^/]*$", word))
    flags = words[start:]
    for option in ("-o", "-c"):
        at = flags.index(option)
        del flags[at : at + 2]
    return flags


def compile_source(source: str, directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Compiles the text, behind imports of all frameworks; the object is ``directory / "source.o"``."""
    path = directory / "source.mm"
    path.write_text(IMPORTS + source)
    command = [*_command(), *options, "-c", str(path), "-o", str(directory / "source.o")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def run_source(source: str, directory: Path) -> str:
    """Compiles a program that needs the Objective-C runtime at most; returns what it prints."""
    compiled = compile_source(source, directory)
    assert compiled.returncode == 0, compiled.stderr
    program = directory / "program"
    runtime = next(
        library
        for word in _command()
        for library in Path(word).parent.glob("lib/**/libobjfwrt.so.1")
        if "objfw" in word
    )
    command = [_command()[0], str(directory / "source.o"), str(runtime), f"-Wl,-rpath,{runtime.parent}"]
    linked = subprocess.run([*command, "-o", str(program)], capture_output=True, text=True, check=False)
    assert linked.returncode == 0, linked.stderr
    return subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
