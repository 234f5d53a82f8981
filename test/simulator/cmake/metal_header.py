"""Wraps a Metal source file in a C++ header for compilation at run time: ``metal_header.py SOURCE HEADER``.

A PyTorch build without Apple's offline Metal compiler defines
``PYTORCH_JIT_COMPILE_SHADERS``, and each ``<Name>.mm`` then includes
``<Name>_metallib.h``, expected to define a ``MetalShaderLibrary`` called
``lib``. The run-time compiler sees one string and no files; the kernels of
PyTorch 2.6.0 include no headers of the checkout.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    """Writes the header."""
    source, header = Path(sys.argv[1]), Path(sys.argv[2])
    header.parent.mkdir(parents=True, exist_ok=True)
    header.write_text(
        "#include <ATen/native/mps/OperationUtils.h>\n"
        'static ::at::native::mps::MetalShaderLibrary lib(R"METAL_SOURCE(\n'
        f'{source.read_text()})METAL_SOURCE");\n'
    )


if __name__ == "__main__":
    main()
