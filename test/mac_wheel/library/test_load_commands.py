"""What the library's file says of itself, and that each thing that is wrong with one is named."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fork_tool.mac_library.link import link, link_words, linker_of
from fork_tool.mac_library.make import exported, python_imports
from fork_tool.mac_library.ninja_file import objects
from made_wheel import ENTRIES, Made, SmallLibraries

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
