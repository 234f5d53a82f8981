"""Each name is bound to the library that the file says, and a call or a read of what is not there stops with its name."""

import re
from pathlib import Path

import pytest

from fork_tool.mac_library.symbols import imports
from mac_code.loaded import Inputs, Loaded
from mac_code.machine import Stopped
from mac_code.macho import ANY
from mac_code.runtime import Compiler
from mac_code.system import MacProcess
from mac_code.tables import OFFICIAL

# at::detail::getMPSHooks(), which our library takes from libtorch_cpu.
NAME = "__ZN2at6detail11getMPSHooksEv"


@pytest.fixture
def process(inputs: Inputs, tmp_path: Path) -> MacProcess:
    """The official libraries, bound; a library that has the name, too, is before all others where one looks in all."""
    process = inputs.new_process()
    process.load(inputs.official / "libtorch_python.dylib")
    source = tmp_path / "decoy.c"
    # The compiler puts the first underscore.
    name = f'__attribute__((visibility("default"))) int {NAME[1:]}(void) {{ return 0; }}\n'
    first = "void usleep(int);\n__attribute__((constructor)) static void first(void) { usleep(1); }\n"
    source.write_text(name + first)
    compiler = Compiler(inputs.bench, tmp_path)
    process.load(compiler.link("libdecoy.dylib", [compiler.compile(source)]))
    process.images.insert(0, process.images.pop())
    return process


def changed(library: Path, folder: Path, ordinal: int) -> Path:
    """The library, for which the name comes from another of its libraries, or from any."""
    content = library.read_bytes()
    # An instruction with the library's number, one with the flags, the name.
    (place,) = (match.start() for match in re.finditer(rb"[\x10-\x1f]\x40" + NAME.encode() + rb"\0", content))
    instruction = 0x10 | ordinal if ordinal > 0 else 0x30 | 16 + ordinal
    new = folder / library.name
    new.write_bytes(content[:place] + bytes([instruction]) + content[place + 1 :])
    return new


def test_every_name_is_bound_to_its_library(inputs: Inputs, loaded: Loaded) -> None:
    count = 0
    for image in loaded.process.images:
        if image.file.path.parent == inputs.official or image is loaded.own:
            assert list(loaded.process.wrong_bindings(image, imports(image.file.path))) == [], image.name
            count += len(image.file.binds)
    loaded.report["pointers_bound"] = count


def test_other_library_of_the_name_is_left_out(inputs: Inputs, process: MacProcess) -> None:
    image = process.load(inputs.library)
    assert list(process.wrong_bindings(image, imports(inputs.library))) == []


def test_name_in_the_wrong_library_is_seen(inputs: Inputs, process: MacProcess, loaded: Loaded, tmp_path: Path) -> None:
    image = process.load(changed(inputs.library, tmp_path, ANY))
    said = f"{NAME} is bound to libdecoy.dylib, not to {OFFICIAL}"
    assert set(process.wrong_bindings(image, imports(inputs.library))) == {said}
    loaded.seen(said)


def test_name_that_the_library_does_not_have(
    inputs: Inputs, process: MacProcess, loaded: Loaded, tmp_path: Path
) -> None:
    ordinal = loaded.own.file.dependencies.index("@rpath/libc10.dylib") + 1
    said = f"libtorch_mps_graph.dylib takes {NAME} from @rpath/libc10.dylib, which does not have it"
    with pytest.raises(Stopped, match=f"^{re.escape(said)}$"):
        process.load(changed(inputs.library, tmp_path, ordinal))
    loaded.seen(said)


def test_initializer_that_stops_is_named(process: MacProcess, loaded: Loaded) -> None:
    said = "initializer 1 of 1 in libdecoy.dylib: _usleep was called, which nobody has written"
    with pytest.raises(Stopped, match=f"^{said}"):
        process.initialize(process.image("libdecoy.dylib"))
    loaded.seen(said)


def test_what_is_not_there_stops(loaded: Loaded) -> None:
    machine = loaded.machine
    unknown, length = machine.trap("_unknown"), loaded.process.image("libshim.dylib").address("_strlen")
    for said, arguments in (
        ("_unknown was called, which nobody has written, from ", (unknown,)),
        ("0x0 was called, which nobody has written, from ", (0,)),
        ("Invalid memory read (UC_ERR_READ_UNMAPPED) of _unknown at libshim.dylib _", (length, unknown)),
    ):
        with pytest.raises(Stopped, match=f"^{re.escape(said)}"):
            machine.call(*arguments)
        loaded.seen(said.strip())
