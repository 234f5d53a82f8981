"""An extension that is built with the wheel calls the library's backend; one that was not is found."""

import os
import subprocess
import types
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZipFile

import pytest

from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import write_atomically
from fork_tool.mac_library.libraries import CXX, SYSTEM, write_stubs
from fork_tool.mac_library.link import linker_of
from fork_tool.mac_library.ninja_file import objects
from fork_tool.mac_library.places import LIBRARY
from fork_tool.mac_library.python_files import with_library
from fork_tool.mac_library.symbols import backend_functions, imports
from fork_tool.mac_library.tools import read_library
from made_wheel import Made

HERE = Path(__file__).resolve().parent
OFFICIAL = "libtorch_cpu.dylib"
# at::mps::getCurrentMPSStream() and at::mps::MPSStream::synchronize(SyncType)
STREAM, SYNCHRONIZE = "__ZN2at3mps19getCurrentMPSStreamEv", "__ZN2at3mps9MPSStream11synchronizeENS0_8SyncTypeE"


class Extensions:
    """Builds the extension for a Mac as torch.utils.cpp_extension would there, but for the compiler."""

    def __init__(self, made: Made, replaced: dict[str, bytes], folder: Path):
        self.made, self.folder = made, folder
        for name, content in replaced.items():
            if name.startswith("torch/include/"):
                write_atomically(folder / "changed" / name.removeprefix("torch/include/"), content)
        places, pin = made.bench.places, made.bench.pin
        self.part = folder / "extension.o"
        words = [str(places.zig), "c++", "-target", f"aarch64-macos.{pin.macos}", "-std=c++17", "-O2", "-g0", "-w"]
        words += [
            f"-I{folder / 'changed'}",
            f"-I{places.official_headers / 'torch' / 'include'}",
            "-DUSE_MPS",
            f"-I{places.include}",
            "-fblocks",
            "-include",
            "mach/vm_page_size.h",
            "-DPAGE_SIZE=vm_page_size",
        ]
        environment = os.environ | places.compiler_environment
        subprocess.run([*words, "-c", str(HERE / "extension.mm"), "-o", str(self.part)], check=True, env=environment)
        self.lib = folder / "lib"
        self.lib.mkdir()
        for library in (*(made.torch / "lib").glob("*.dylib"), made.library):
            (self.lib / library.name).symlink_to(library)

    def link(self, name: str, libraries: Sequence[str]) -> Path:
        """The extension, linked with these words as setuptools and the JIT build of extensions do on a Mac."""
        pin, output = self.made.bench.pin, self.folder / f"{name}.so"
        stubs = write_stubs(self.made.bench.places, self.made.libraries)
        words = [linker_of(self.made.bench.machine), "-bundle", "-undefined", "dynamic_lookup", "-arch", "arm64"]
        words += ["-platform_version", "macos", pin.macos, pin.sdk, "-o", str(output), str(self.part)]
        words += [f"-L{self.lib}", *libraries, str(stubs[SYSTEM]), str(stubs[CXX])]
        subprocess.run(words, check=True)
        return output


@pytest.fixture(scope="session")
def extensions(made: Made, replaced: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> Extensions:
    """The compiled extension."""
    return Extensions(made, replaced, tmp_path_factory.mktemp("extension"))


def on_a_mac(content: bytes) -> types.ModuleType:
    """The module torch.utils.cpp_extension of this text, as it is on macOS."""
    module = types.ModuleType("torch.utils.cpp_extension_of_the_wheel")
    module.__package__ = "torch.utils"
    module.__file__ = __file__
    exec(compile(content, "cpp_extension.py", "exec"), module.__dict__)
    assert module.__dict__.keys() >= {"IS_MACOS", "IS_LINUX"}
    module.__dict__.update(IS_MACOS=True, IS_LINUX=False)
    return module


def words_of(content: bytes, standalone: bool = False) -> list[str]:
    """The libraries that the JIT build of an extension is linked with."""
    words: list[str] = on_a_mac(content)._prepare_ldflags([], False, False, standalone)
    return [word for word in words if word.startswith("-l")]


@pytest.fixture(scope="session")
def official_text(made: Made) -> bytes:
    """torch/utils/cpp_extension.py of the official wheel."""
    with ZipFile(made.official) as archive:
        return archive.read("torch/utils/cpp_extension.py")


def bound_to(made: Made, extension: Path) -> dict[str, str]:
    """The library's file name for each function of the backend that the extension takes."""
    found = imports(extension)
    return {each.name: each.library.rsplit("/", 1)[-1] for each in found if each.name.startswith("__ZN2at3mps")}


def exports(library: Path) -> set[str]:
    binary = read_library(library)
    return {symbol.name for symbol in binary.exported_symbols}


def test_backend_functions_are_exported(made: Made) -> None:
    bench = made.bench
    own = set(backend_functions(objects(bench.places, bench.checkout, bench.python)))
    assert {STREAM, SYNCHRONIZE} <= own <= exports(made.library)
    official = exports(made.torch / "lib" / OFFICIAL)
    # Under the names that the official library has them by; what it does not have are the series' own.
    assert {STREAM, SYNCHRONIZE} <= official
    assert len(own & official) > 1000
    assert not [name for name in own - official if not name.startswith(("__ZN2at3mps", "__ZNK2at3mps"))]


def test_extension_calls_this_backend(
    made: Made, extensions: Extensions, replaced: dict[str, bytes], official_text: bytes
) -> None:
    text = replaced["torch/utils/cpp_extension.py"]
    assert bound_to(made, extensions.link("jit", words_of(text))) == dict.fromkeys((STREAM, SYNCHRONIZE), LIBRARY)
    of_setup = [f"-l{name}" for name in on_a_mac(text).CppExtension("extension", ["extension.cpp"]).libraries]
    assert bound_to(made, extensions.link("setup", of_setup)) == dict.fromkeys((STREAM, SYNCHRONIZE), LIBRARY)
    # As it would be without the change.
    stock = extensions.link("stock", words_of(official_text))
    assert bound_to(made, stock) == dict.fromkeys((STREAM, SYNCHRONIZE), OFFICIAL)


def test_programs_are_linked_as_before(replaced: dict[str, bytes], official_text: bytes) -> None:
    """A program without Python has nothing that puts the library in charge."""
    text = replaced["torch/utils/cpp_extension.py"]
    assert words_of(text, standalone=True) == words_of(official_text, standalone=True)


def test_headers_are_the_librarys(replaced: dict[str, bytes], made: Made) -> None:
    """An extension that was compiled with the official headers would see another class."""
    checkout = made.bench.checkout
    for name in ("ATen/mps/MPSStream.h", "ATen/mps/MPSCommandGraphCapture.h", "ATen/native/mps/OperationUtils.h"):
        assert replaced[f"torch/include/{name}"] == (checkout / "aten" / "src" / name).read_bytes()
    unchanged = "ATen/mps/MPSDevice.h"
    assert f"torch/include/{unchanged}" not in replaced
    official = made.bench.places.official_headers / "torch" / "include" / unchanged
    assert official.read_bytes() == (checkout / "aten" / "src" / unchanged).read_bytes()


def test_other_text_is_refused(official_text: bytes) -> None:
    text = official_text.decode()
    with pytest.raises(ForkToolError, match="links with the library already"):
        with_library(with_library(text))
    with pytest.raises(ForkToolError, match=r"has no line \"extra_ldflags.append\('-lc10'\)\""):
        with_library(text.replace("extra_ldflags.append('-lc10')", "extra_ldflags.insert(0, '-lc10')"))


@pytest.fixture(scope="session")
def look(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The part of the library that reads Mach-O files, as a program for this machine."""
    folder = tmp_path_factory.mktemp("look")
    # Without Apple's other headers, which are not for this machine.
    headers = made.bench.places.zig.parent / "lib" / "libc" / "include" / "any-darwin-any" / "mach-o"
    (folder / "mach-o").symlink_to(headers)
    takeover = made.bench.places.own / "takeover"
    sources = [HERE / "look_into_image.cpp", takeover / "mac" / "image_names.cpp"]
    types = [f"-D{name}=int" for name in ("cpu_type_t", "cpu_subtype_t", "vm_prot_t")]
    words = ["c++", "-std=c++17", "-fsanitize=address,undefined", f"-I{takeover}", f"-I{folder}", *types]
    subprocess.run([*words, *map(str, sources), "-o", str(folder / "look_into_image")], check=True)
    return folder / "look_into_image"


def taken(look: Path, extension: Path, library: str) -> str:
    return subprocess.run([look, extension, library], capture_output=True, text=True, check=True).stdout.strip()


def test_extension_of_the_other_backend_is_found(
    made: Made, extensions: Extensions, look: Path, replaced: dict[str, bytes], official_text: bytes
) -> None:
    stock = extensions.link("stock2", words_of(official_text))
    assert taken(look, stock, OFFICIAL) in (STREAM, SYNCHRONIZE)
    assert taken(look, stock, LIBRARY) == ""
    own = extensions.link("own2", words_of(replaced["torch/utils/cpp_extension.py"]))
    assert taken(look, own, OFFICIAL) == ""
    assert taken(look, own, LIBRARY) in (STREAM, SYNCHRONIZE)
    # Bound to whichever library is first to have the name, which is the official one.
    assert taken(look, extensions.link("late", []), OFFICIAL) in (STREAM, SYNCHRONIZE)


def test_libraries_of_the_wheel(made: Made, look: Path) -> None:
    # Torch's Python library does call the backend; what it calls is replaced.
    assert taken(look, made.torch / "lib" / "libtorch_python.dylib", OFFICIAL) != ""
    for name in ("libc10.dylib", "libtorch.dylib"):
        assert taken(look, made.torch / "lib" / name, OFFICIAL) == ""
    assert taken(look, made.library, OFFICIAL) == ""
