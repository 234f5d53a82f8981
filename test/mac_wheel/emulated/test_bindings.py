"""Each name is bound to the library that the file says, whichever others have it."""

import re
from pathlib import Path

import pytest

from conftest import Inputs, Loaded
from fork_tool.mac_library.symbols import imports
from mac_code.bindings import wrong_bindings
from mac_code.machine import Machine
from mac_code.macho import MachO
from mac_code.process import BindError, Process
from mac_code.runtime import Compiler
from mac_code.system import MacOS
from mac_code.tables import OFFICIAL

# at::detail::getMPSHooks(), which our library takes from libtorch_cpu, and its instructions for dyld: take the library of a
# number, or look in all (-2).
NAME = "__ZN2at6detail11getMPSHooksEv"
FROM_LIBRARY, FROM_ANY = 0x10, 0x3E


@pytest.fixture(scope="module")
def empty(inputs: Inputs) -> Process:
    """The official libraries, bound; nothing runs."""
    machine = Machine()
    process = Process(machine, inputs.systems, inputs.files, MacOS(machine).variables())
    process.load(inputs.files["@rpath/libtorch_python.dylib"])
    return process


@pytest.fixture(scope="module")
def decoy(inputs: Inputs, empty: Process, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that has the name, too, and is before all others where one looks in all."""
    folder = tmp_path_factory.mktemp("decoy")
    source = folder / "decoy.c"
    # The compiler puts the first underscore.
    source.write_text(f'__attribute__((visibility("default"))) int {NAME[1:]}(void) {{ return 0; }}\n')
    compiler = Compiler(inputs.bench, folder)
    library = compiler.link("libdecoy.dylib", "@rpath/libdecoy.dylib", [compiler.compile(source)])
    empty.load(library)
    empty.images.insert(0, empty.images.pop())
    return library


def changed(library: Path, instruction: int) -> bytes:
    """The library with other instructions for where the name comes from."""
    content = library.read_bytes()
    # The library's number, the name, and with it the flags.
    places = [match.start() for match in re.finditer(rb"[\x10-\x1f]\x40" + NAME.encode() + rb"\0", content)]
    assert places and all(content[place] == FROM_LIBRARY | 1 for place in places)
    for place in places:
        content = content[:place] + bytes([instruction]) + content[place + 1 :]
    return content


def test_every_name_is_bound_to_its_library(inputs: Inputs, loaded: Loaded) -> None:
    count = 0
    for image in loaded.process.images:
        if image.file.path.parent == inputs.torch / "lib" or image is loaded.own:
            assert list(wrong_bindings(loaded.process, image, imports(image.file.path))) == [], image.name
            count += len(image.bound)
    assert count > 10_000
    loaded.report["pointers_bound"] = count


@pytest.mark.usefixtures("decoy")
def test_other_library_of_the_name_is_left_out(inputs: Inputs, empty: Process) -> None:
    image = empty.load(inputs.library)
    assert list(wrong_bindings(empty, image, imports(inputs.library))) == []


@pytest.mark.usefixtures("decoy")
def test_name_in_the_wrong_library_is_seen(inputs: Inputs, empty: Process, loaded: Loaded) -> None:
    """As it would be with one level: the first library that has the name."""
    image = empty.load(inputs.library, changed(inputs.library, FROM_ANY))
    said = f"{NAME} is bound to libdecoy.dylib, not to {OFFICIAL}"
    assert set(wrong_bindings(empty, image, imports(inputs.library))) == {said}
    loaded.report.setdefault("planted_faults_seen", []).append(said)


def test_name_that_the_library_does_not_have(inputs: Inputs, empty: Process, loaded: Loaded) -> None:
    own = MachO(inputs.library)
    number = [name for name, _ in own.dependencies].index("@rpath/libc10.dylib") + 1
    with pytest.raises(BindError) as caught:
        empty.load(inputs.library, changed(inputs.library, FROM_LIBRARY | number))
    said = f"libtorch_mps_graph.dylib takes {NAME} from @rpath/libc10.dylib, which does not have it"
    assert str(caught.value) == said
    loaded.report.setdefault("planted_faults_seen", []).append(said)
