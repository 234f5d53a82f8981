"""Every name that the library takes is one that the Mac has; names that it has not are named."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from fork_tool.common.errors import ForkToolError
from fork_tool.mac_library.make import python_api
from fork_tool.mac_library.symbol_tables import imports
from fork_tool.mac_library.symbols import owner_findings, owner_of, system_names
from fork_tool.mac_library.tools import read_library
from made_wheel import ENTRIES, Made, SmallLibraries

_HASH = """
#include <string>
#include <unordered_map>
std::size_t hashed(const std::string& text) { return std::hash<std::string>()(text); }
extern "C" __attribute__((visibility("default"))) std::size_t aoti_torch_mps_hashed(const char* text) { return hashed(text); }
"""


def late(words: list[str]) -> list[str]:
    """Leave what is undefined to dyld, as a linker that is told so does."""
    return [*words, "-undefined", "dynamic_lookup"]


def test_every_name_has_an_owner(made: Made) -> None:
    taken, api = imports(made.library), python_api(made.bench)
    system = system_names(made.bench.places)
    assert list(owner_findings(taken, api, system)) == []
    # Each owner has some names; else nothing was read.
    counts = Counter(owner_of(each, api) for each in taken)
    assert (
        counts["libtorch_cpu.dylib"] > 400 and counts["Python"] and counts["libSystem.B.dylib"] and len(counts) > 8
    ), counts
    name = next(each.name for each in taken if owner_of(each, api) == "libSystem.B.dylib")
    assert list(owner_findings(taken, api, system - {name})) == [f"{name} is not in Apple's stub of libSystem"]


def test_name_that_does_not_exist(made: Made, small: SmallLibraries) -> None:
    part = small.compile(
        f'{ENTRIES}\nextern "C" int mps_graph_no_such_function();\n'
        'extern "C" __attribute__((visibility("default"))) int aoti_torch_mps_call() { return mps_graph_no_such_function(); }\n'
    )
    library = small.link(part, change=late)
    assert made.findings(library) == [
        "_mps_graph_no_such_function is bound to no library, and Python's headers do not declare it"
    ]
    with pytest.raises(ForkToolError, match="No library that the Mac has exports _mps_graph_no_such_function: "):
        small.link(part)


def test_name_of_a_newer_cxx_library(made: Made, small: SmallLibraries) -> None:
    """The headers of LLVM 21 hash strings by a function that no libc++ of macOS before 26 has."""
    newer = small.compile(ENTRIES + _HASH, "-D_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS=0")
    with pytest.raises(ForkToolError, match="__ZNSt3__113__hash_memoryEPKvm"):
        small.link(newer)
    # As the library is compiled.
    assert made.findings(small.link(small.compile(ENTRIES + _HASH))) == []


def test_sdk_is_the_official_wheels(made: Made) -> None:
    binary = read_library(made.torch / "lib" / "libtorch_cpu.dylib")
    assert ".".join(map(str, binary.build_version.sdk)).startswith(made.bench.pin.sdk)


def test_further_names_are_used(made: Made) -> None:
    """A name is in the list while it is needed and the official libraries do not import it."""
    taken = {each.name for each in imports(made.library)}
    for library in made.libraries:
        assert library.official, library.name
        assert library.further - taken == set(), library.name
        assert library.further & library.official == set(), library.name


def test_nothing_of_the_cxx_library_is_linked_in(made: Made) -> None:
    """Exceptions cross into torch only where both have the system's types."""
    binary = read_library(made.library)
    defined = {symbol.name for symbol in binary.symbols if symbol.raw_type & 0x0E}
    owners = {each.name: owner_of(each, frozenset()) for each in imports(made.library)}
    for name in ("___cxa_throw", "___gxx_personality_v0", "__ZTISt13runtime_error", "__Znwm"):
        assert name not in defined
        assert owners[name] == "libc++.1.dylib"


def test_python_side_shares_torchs_types(made: Made) -> None:
    """pybind11 finds torch's types by a name that compiler and library are part of."""
    mark = re.compile(rb"__pybind11_internals_v\w+?__")
    official = set(mark.findall((made.torch / "lib" / "libtorch_python.dylib").read_bytes()))
    assert official and set(mark.findall(made.library.read_bytes())) <= official


def test_no_class_twice(made: Made) -> None:
    """Objective-C has one room for the names of classes: the official library has none of ours."""

    def classes(path: Path) -> set[str]:
        binary = read_library(path)
        return {each.name for each in binary.symbols if each.name.startswith("_OBJC_CLASS_$_") and each.raw_type & 0x0E}

    own = classes(made.library)
    official = classes(made.torch / "lib" / "libtorch_cpu.dylib")
    assert own & official == set()
