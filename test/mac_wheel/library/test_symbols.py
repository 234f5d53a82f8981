"""Every name that the library takes is one that the Mac has, what its file says of itself, and that each fault is named."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from fork_tool.common.errors import ForkToolError
from fork_tool.mac_library.link import link, link_words, linker_of
from fork_tool.mac_library.make import exported, python_api, python_imports
from fork_tool.mac_library.ninja_file import objects
from fork_tool.mac_library.symbols import imports, owner_findings, owner_of, system_names
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


Change = Callable[[list[str]], list[str]]


def after(word: str, value: str) -> Change:
    """Give one of the linker's words another value."""

    def change(words: list[str]) -> list[str]:
        at = words.index(word)
        return [*words[: at + 1], value, *words[at + 2 :]]

    return change


def without_pair(word: str) -> Change:
    """Leave out a word and its value."""
    return lambda words: [*words[: words.index(word)], *words[words.index(word) + 2 :]]


def test_libraries_without_a_fault(made: Made, small: SmallLibraries) -> None:
    assert made.findings(made.library) == []
    assert made.findings(small.link(small.compile(ENTRIES))) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (after("macos", "14.0"), "its oldest macOS is [14, 0, 0], not [13, 3, 0]"),
        (
            after("-install_name", "/usr/local/lib/x.dylib"),
            "its install name is ['/usr/local/lib/x.dylib'], not ['@rpath/",
        ),
        (after("-rpath", "/usr/local/lib"), "its rpath is ['/usr/local/lib'], not ['@loader_path']"),
        (after("-exported_symbols_list", "/dev/null"), "it does not export _torch_mps_graph_load"),
        (lambda words: [*words, "-no_adhoc_codesign"], "its signature is False, not True"),
    ],
    ids=["newer macOS", "install name", "rpath", "no exports", "not signed"],
)
def test_planted_fault_is_named(made: Made, small: SmallLibraries, change: Change, said: str) -> None:
    found = made.findings(small.link(small.compile(ENTRIES), change=change))
    assert any(said in each for each in found), found


def test_further_export_is_named(made: Made, small: SmallLibraries) -> None:
    """With it, flags by which dyld would take other libraries' symbols for our own."""
    part = small.compile(
        f"{ENTRIES}\n"
        'template <typename T> struct __attribute__((visibility("default"))) Shared {\n'
        "  static T* value() { static T kept; return &kept; }\n"
        "};\n"
        'extern "C" __attribute__((visibility("default"))) long* aoti_torch_mps_value() { return Shared<long>::value(); }\n'
    )
    assert made.findings(small.link(part)) == []
    all_names = small.link(part, change=without_pair("-exported_symbols_list"))
    found = made.findings(all_names)
    assert any("it exports __ZZN6SharedIlE5valueEvE4kept" in each for each in found), found
    assert any("it has the flag WEAK_DEFINES" in each for each in found), found


def test_folder_of_this_machine_is_named(made: Made, small: SmallLibraries) -> None:
    root = str(made.bench.places.repository)
    part = small.compile(
        f'{ENTRIES}\nextern "C" __attribute__((visibility("default"))) const char* aoti_torch_mps_file() '
        f'{{ return "{root}/aten/x.mm"; }}\n'
    )
    assert f"it names a folder of the machine that built it: {root}/aten/x.mm" in made.findings(small.link(part))


def test_library_is_the_same_when_linked_again(made: Made) -> None:
    """And so are its objects, which the compiler's cache may have kept: the wheel's test compiles one again."""
    bench, before = made.bench, made.library.read_bytes()
    parts = objects(bench.places, bench.checkout, bench.python)
    late = python_imports(bench)
    output = bench.places.of_python(bench.python) / "again" / f"python{bench.python}" / made.library.name
    linker, names = linker_of(bench.machine), exported(bench)
    words = link_words(bench.places, bench.pin, linker, parts, output, made.torch, made.libraries, late, names)
    link(bench.places, words, output)
    assert output.read_bytes() == before
