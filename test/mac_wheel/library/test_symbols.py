"""Every name that the library takes is one that the Mac has; names that it has not are named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fork_tool.common.errors import ForkToolError
from fork_tool.mac_library.libraries import CXX, SYSTEM
from fork_tool.mac_library.symbol_tables import imports
from fork_tool.mac_library.symbols import count_owners, findings, NONE
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
    taken = imports(made.lief, made.library)
    paths = {library.name: library.path for library in made.libraries}
    assert findings(made.owners, taken, paths) == []
    counts = count_owners(made.owners, taken)
    # No name is without an owner. The other groups have many names; else nothing was read.
    assert counts.pop(NONE) == 0
    assert counts["torch"] > 500 and all(counts.values()), counts


def test_name_that_does_not_exist(made: Made, small: SmallLibraries) -> None:
    part = small.compile(
        f'{ENTRIES}\nextern "C" int mps_graph_no_such_function();\n'
        'extern "C" __attribute__((visibility("default"))) int aoti_torch_mps_call() { return mps_graph_no_such_function(); }\n'
    )
    library = small.link(part, change=late)
    assert made.findings(library) == [
        "_mps_graph_no_such_function is undefined, and neither the official wheel's libraries nor the lists of macOS's have it"
    ]
    with pytest.raises(ForkToolError, match="No library that the Mac has exports _mps_graph_no_such_function: "):
        small.link(part)


def test_name_of_a_newer_cxx_library(made: Made, small: SmallLibraries) -> None:
    """The headers of LLVM 21 hash strings by a function that no libc++ of macOS before 26 has."""
    newer = small.compile(ENTRIES + _HASH, "-D_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS=0")
    name = "__ZNSt3__113__hash_memoryEPKvm"
    assert made.findings(small.link(newer, change=late)) == [
        f"{name} is undefined, and the libc++ of the oldest macOS is not known to have it (scripts/mac_wheel/stubs/libraries.toml)"
    ]
    with pytest.raises(ForkToolError, match=name):
        small.link(newer)
    # As the library is compiled.
    assert made.findings(small.link(small.compile(ENTRIES + _HASH))) == []


def test_name_bound_to_whatever_has_it(made: Made, small: SmallLibraries) -> None:
    part = small.compile(
        f'{ENTRIES}\nextern "C" void* objc_retain(void*);\n'
        'extern "C" __attribute__((visibility("default"))) void* aoti_torch_mps_keep(void* it) { return objc_retain(it); }\n'
    )
    assert made.findings(small.link(part)) == []
    without = small.link(
        part, change=lambda words: [word for word in late(words) if "libobjc" not in word and word != "-weak_library"]
    )
    assert "_objc_retain is in /usr/lib/libobjc.A.dylib and bound to whatever has it" in made.findings(without)


def test_sdk_is_the_official_wheels(made: Made) -> None:
    binary = read_library(made.lief, made.torch / "lib" / "libtorch_cpu.dylib")
    assert ".".join(map(str, binary.build_version.sdk)).startswith(made.bench.pin.sdk)


def test_system_names_are_apples(made: Made) -> None:
    """Each name of libSystem that is linked is in Apple's own list of it."""
    system = next(library for library in made.libraries if library.name == SYSTEM)
    assert system.names - made.owners.system == set()


def test_further_names_are_used(made: Made) -> None:
    """A name is in the list while it is needed and the official libraries do not import it."""
    taken = {each.name for each in imports(made.lief, made.library)}
    for library in made.libraries:
        assert library.official, library.name
        assert library.further - taken == set(), library.name
        assert library.further & library.official == set(), library.name


def test_nothing_of_the_cxx_library_is_linked_in(made: Made) -> None:
    """Exceptions cross into torch only where both have the system's types."""
    binary = read_library(made.lief, made.library)
    defined = {symbol.name for symbol in binary.symbols if symbol.raw_type & 0x0E}
    for name in ("___cxa_throw", "___gxx_personality_v0", "__ZTISt13runtime_error", "__Znwm"):
        assert name not in defined
        owner = made.owners.of(name)
        assert owner == CXX, owner


def test_python_side_shares_torchs_types(made: Made) -> None:
    """pybind11 finds torch's types by a name that compiler and library are part of."""
    mark = re.compile(rb"__pybind11_internals_v\w+?__")
    official = set(mark.findall((made.torch / "lib" / "libtorch_python.dylib").read_bytes()))
    assert official and set(mark.findall(made.library.read_bytes())) <= official


def test_no_class_twice(made: Made) -> None:
    """Objective-C has one room for the names of classes: the official library has none of ours."""

    def classes(path: Path) -> set[str]:
        binary = read_library(made.lief, path)
        return {each.name for each in binary.symbols if each.name.startswith("_OBJC_CLASS_$_") and each.raw_type & 0x0E}

    own = classes(made.library)
    official = classes(made.torch / "lib" / "libtorch_cpu.dylib")
    assert own & official == set()
