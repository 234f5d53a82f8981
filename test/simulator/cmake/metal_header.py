"""Wraps a Metal source file in a C++ header for compilation at run time.

A PyTorch build without Apple's offline Metal compiler defines
``PYTORCH_JIT_COMPILE_SHADERS``, and each ``<Name>.mm`` then includes
``<Name>_metallib.h``, expected to define a ``MetalShaderLibrary`` called
``lib``. The run-time compiler sees one string and no files, so includes of
the checkout's own headers are put in place here.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"].*$', re.MULTILINE)
PRAGMA_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once[ \t]*$", re.MULTILINE)


def resolve(source: Path, directories: list[Path], seen: set[Path], text: str | None = None) -> str:
    """Returns the text of ``source`` with the checkout's headers in place.

    A header that no directory holds (``metal_stdlib``) stays as it is; one that
    was included before vanishes, as with ``#pragma once``.
    """

    def replace(match: re.Match[str]) -> str:
        name = match.group(1)
        for directory in (source.parent, *directories):
            candidate = (directory / name).resolve()
            if candidate.is_file():
                if candidate in seen:
                    return ""
                seen.add(candidate)
                return PRAGMA_ONCE.sub("", resolve(candidate, directories, seen))
        return match.group(0)

    return INCLUDE.sub(replace, source.read_text() if text is None else text)


def header_text(source: Path, directories: list[Path], seen: set[Path]) -> str:
    """Returns the C++ header that defines ``lib`` with the code of ``source``."""
    return (
        "#include <ATen/native/mps/OperationUtils.h>\n"
        'static ::at::native::mps::MetalShaderLibrary lib(R"METAL_SOURCE(\n'
        f'{resolve(source, directories, seen)})METAL_SOURCE");\n'
    )


def main() -> None:
    """Writes the header and the list of files it was made of."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("header", type=Path)
    parser.add_argument("--include", type=Path, action="append", default=[])
    parser.add_argument("--depfile", type=Path, required=True)
    arguments = parser.parse_args()

    seen: set[Path] = set()
    text = header_text(arguments.source, arguments.include, seen)
    arguments.header.parent.mkdir(parents=True, exist_ok=True)
    arguments.header.write_text(text)
    names = " ".join(str(path) for path in (arguments.source, *sorted(seen)))
    arguments.depfile.write_text(f"{arguments.header}: {names}\n")


if __name__ == "__main__":
    main()
