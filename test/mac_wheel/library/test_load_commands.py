"""What the library's file says of itself, and that each thing that is wrong with one is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fork_tool.mac_library.link import link, link_words, linker_of
from fork_tool.mac_library.macho import library_command_findings, path_findings, segment_findings
from fork_tool.mac_library.make import exported, python_imports
from fork_tool.mac_library.ninja_file import objects
from fork_tool.mac_library.tools import read_library
from made_wheel import ENTRIES, Made, SmallLibraries

Change = Callable[[list[str]], list[str]]


def after(word: str, value: str) -> Change:
    """Give one of the linker's words another value."""

    def change(words: list[str]) -> list[str]:
        at = words.index(word)
        return [*words[: at + 1], value, *words[at + 2 :]]

    return change


def without(*dropped: str) -> Change:
    return lambda words: [word for word in words if word not in dropped]


def without_pair(word: str) -> Change:
    """Leave out a word and its value."""
    return lambda words: [*words[: words.index(word)], *words[words.index(word) + 2 :]]


def test_library_has_no_fault(made: Made) -> None:
    assert made.findings(made.library) == []


def test_small_library_has_no_fault(made: Made, small: SmallLibraries) -> None:
    assert made.findings(small.link(small.compile(ENTRIES))) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (after("macos", "14.0"), "it is for MACOS 14.0.0, not for macOS 13.3"),
        (after("-install_name", "/usr/local/lib/x.dylib"), "its install name is /usr/local/lib/x.dylib, not @rpath/"),
        (after("-rpath", "/usr/local/lib"), "its rpaths are /usr/local/lib, not @loader_path"),
        (without("-rpath", "@loader_path"), "its rpaths are none, not @loader_path"),
        (after("-exported_symbols_list", "/dev/null"), "it does not export _torch_mps_graph_load"),
        (lambda words: [*words, "-no_adhoc_codesign"], "it is not signed: no Mac with Apple silicon loads it"),
    ],
    ids=["newer macOS", "install name", "rpath", "no rpath", "no exports", "not signed"],
)
def test_planted_fault_is_named(made: Made, small: SmallLibraries, change: Change, said: str) -> None:
    found = made.findings(small.link(small.compile(ENTRIES), change=change))
    assert any(said in each for each in found), found


def test_further_export_is_named(made: Made, small: SmallLibraries, tmp_path: Path) -> None:
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


def test_segments_out_of_place_are_named(made: Made) -> None:
    size = made.library.stat().st_size
    binary = read_library(made.lief, made.library)
    assert list(segment_findings(binary, size)) == []
    assert list(segment_findings(binary, size - 1)) == ["the segment __LINKEDIT ends behind the end of the file"]
    data = next(segment for segment in binary.segments if segment.name == "__DATA")
    data.virtual_address += 8
    assert "the segment __DATA does not begin at a page of 16384 bytes" in list(segment_findings(binary, size))
    data.virtual_address = 0
    assert "the segment __DATA overlaps the one before" in list(segment_findings(binary, size))


def test_other_libraries_are_named(made: Made) -> None:
    binary = read_library(made.lief, made.library)
    assert list(library_command_findings(binary, made.libraries)) == []
    wanted = next(command for command in binary.libraries if command.name.endswith("/Metal"))
    wanted.name = "/opt/lib/libfoo.dylib"
    (found,) = library_command_findings(binary, made.libraries)
    assert found.startswith("it wants /opt/lib/libfoo.dylib, which is no library of the wheel")
    system = next(library for library in made.libraries if library.name == "libSystem")
    wanted.name = system.path
    (found,) = library_command_findings(binary, made.libraries)
    assert found == f"{system.path} is linked weakly, unlike in the official wheel"


def test_folder_of_this_machine_is_named(made: Made, small: SmallLibraries) -> None:
    root = str(made.bench.places.repository)
    part = small.compile(
        f'{ENTRIES}\nextern "C" __attribute__((visibility("default"))) const char* aoti_torch_mps_file() '
        f'{{ return "{root}/aten/x.mm"; }}\n'
    )
    assert f"it names a folder of the machine that built it: {root}/aten/x.mm" in made.findings(small.link(part))
    assert list(path_findings(b"aten/src/ATen/mps/MPSStream.mm", [root])) == []


def test_changed_byte_is_named(made: Made, tmp_path: Path) -> None:
    """The Mac's kernel ends a process at the first page that is not what was signed."""
    content = bytearray(made.library.read_bytes())
    at = len(content) // 2
    content[at] ^= 1
    changed = tmp_path / made.library.name
    changed.write_bytes(content)
    assert [each for each in made.findings(changed) if "signed" in each] == [
        f"the page at byte {at // 4096 * 4096} is not what was signed"
    ]


def test_library_is_the_same_when_linked_again(made: Made) -> None:
    """And so are its objects, which the compiler's cache may have kept: the wheel's test compiles one again."""
    bench, before = made.bench, made.library.read_bytes()
    parts = objects(bench.places, bench.checkout, bench.python)
    late = python_imports(bench, made.lief)
    output = bench.places.of_python(bench.python) / "again" / f"python{bench.python}" / made.library.name
    linker, names = linker_of(bench.machine), exported(bench, made.lief)
    words = link_words(bench.places, bench.pin, linker, parts, output, made.torch, made.libraries, late, names)
    link(bench.places, words, output)
    assert output.read_bytes() == before
