"""Has extensions that are built with the wheel call the library's backend: a change of torch/utils/cpp_extension.py."""

from __future__ import annotations

from fork_tool.errors import ForkToolError

_LIBRARY = "torch_mps_graph"
# The linker takes a function from the first library that has it, so each line is put before the first of torch's.
_PLACES = {
    "    libraries.append('c10')\n": f"    if IS_MACOS:\n        libraries.append('{_LIBRARY}')\n",
    "        extra_ldflags.append('-lc10')\n": (
        # A program has no Python, and so nothing that puts the library's backend in charge.
        f"        if IS_MACOS and not is_standalone:\n            extra_ldflags.append('-l{_LIBRARY}')\n"
    ),
}


def with_library(text: str) -> str:
    """Returns torch/utils/cpp_extension.py that links extensions for macOS with the library, before torch's own.

    Raises ForkToolError if the file does not have the lines it knows, or has this already.
    """
    if _LIBRARY in text:
        raise ForkToolError("torch/utils/cpp_extension.py links with the library already: take the official file.")
    for place, added in _PLACES.items():
        if place not in text:
            raise ForkToolError(
                f"torch/utils/cpp_extension.py has no line {place.strip()!r} before which to link: look at the base."
            )
        # The first: others are for CUDA.
        text = text.replace(place, added + place, 1)
    return text
