"""Build what stands for macOS's libraries, for arm64: LLVM's libc++ and libunwind, a piece of libSystem, and the probe."""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fork_tool.common.files import fill_once, remove
from fork_tool.mac_library.libraries import AppleLibrary, CXX, SYSTEM, write_stubs
from fork_tool.mac_library.link import link_target, linker_of
from fork_tool.mac_library.make import Bench

HERE = Path(__file__).resolve().parent
LIBSYSTEM, LIBCXX = "/usr/lib/libSystem.B.dylib", "/usr/lib/libc++.1.dylib"
SHIM, UNWIND, CXX_FILE, PROBE = "libshim.dylib", "libunwind.dylib", "libc++.1.dylib", "libprobe.dylib"

# What libc++'s sources need to know of themselves.
_CXX_WORDS = (
    "-std=c++23",
    "-D_LIBCPP_BUILDING_LIBRARY",
    "-D_LIBCXXABI_BUILDING_LIBRARY",
    "-DLIBCXX_BUILDING_LIBCXXABI",
    "-DHAVE___CXA_THREAD_ATEXIT_IMPL=0",
    "-U_LIBCPP_DISABLE_VISIBILITY_ANNOTATIONS",
    "-U_LIBCXXABI_DISABLE_VISIBILITY_ANNOTATIONS",
    "-fvisibility=hidden",
    "-fvisibility-inlines-hidden",
)
# Parts of libc++ that torch does not use, or that are for other systems.
_LEFT_OUT = frozenset(
    ("cxa_noexception.cpp", "strstream.cpp", "int128_builtins.cpp", "random_shuffle.cpp", "new.cpp", "libcxx_atomic.cpp")
)


@dataclass(frozen=True)
class Runtime:
    """The libraries that were built."""

    folder: Path

    @property
    def shim(self) -> Path:
        return self.folder / SHIM

    @property
    def unwind(self) -> Path:
        return self.folder / UNWIND

    @property
    def cxx(self) -> Path:
        return self.folder / CXX_FILE


class Compiler:
    """The compiler and the linker of `make wheel`."""

    def __init__(self, bench: Bench, folder: Path):
        self.bench, self.folder = bench, folder

    def compile(self, source: Path, *words: str) -> Path:
        """The object of one source."""
        places = self.bench.places
        output = self.folder / f"{source.name}.o"
        kind = "c++" if source.suffix == ".cpp" else "cc"
        command = [str(places.zig), kind, "-target", f"aarch64-macos.{self.bench.pin.macos}", "-O2", "-g0", "-w"]
        command += ["-fno-sanitize=all", *words, "-c", str(source), "-o", str(output)]
        subprocess.run(command, check=True, env=os.environ | places.compiler_environment)
        return output

    def link(self, name: str, install_name: str, objects: Sequence[Path], *words: str) -> Path:
        """The library of these objects; what no library given has is looked for in all, at run time."""
        output = self.folder / name
        command = [linker_of(self.bench.machine), *link_target(self.bench.pin), "-install_name", install_name]
        command += ["-no_fixup_chains", "-undefined", "dynamic_lookup", "-o", str(output), *map(str, objects), *words]
        subprocess.run(command, check=True)
        return output


def build_runtime(bench: Bench) -> Runtime:
    """Bring the libraries up to date; they depend on the pinned compiler and the shim alone."""
    folder = bench.places.root / "emulated" / "runtime"
    library = bench.places.zig.parent / "lib"
    shim = HERE / "shim.c"

    def fill(new: Path) -> None:
        compiler = Compiler(bench, new)
        plain = ("-ffreestanding", "-fno-builtin", "-fno-stack-protector", "-fvisibility=hidden")
        compiler.link(SHIM, f"@rpath/{SHIM}", [compiler.compile(shim, *plain)])
        sources = library / "libunwind" / "src"
        names = ("libunwind.cpp", "UnwindLevel1.c", "UnwindRegistersRestore.S", "UnwindRegistersSave.S")
        words = (f"-I{library / 'libunwind' / 'include'}", "-D_LIBUNWIND_IS_NATIVE_ONLY", "-DNDEBUG")
        parts = [compiler.compile(sources / name, *words, *_language(name)) for name in names]
        compiler.link(UNWIND, f"@rpath/{UNWIND}", parts)
        parts = [compiler.compile(source, *_CXX_WORDS, *_includes(library)) for source in _cxx_sources(library)]
        compiler.link(CXX_FILE, f"@rpath/{CXX_FILE}", parts)
        for part in new.glob("*.o"):
            remove(part)

    fill_once(folder, [bench.pin.tools, shim.read_bytes(), _CXX_WORDS, Path(__file__).read_bytes()], fill)
    return Runtime(folder)


def build_probe(bench: Bench, torch: Path, libraries: Sequence[AppleLibrary]) -> Path:
    """The library that reads torch's tables, bound to the official libraries as an extension is."""
    places = bench.places
    folder = places.root / "emulated" / "probe"
    source = HERE / "probe.cpp"
    header = places.own / "takeover" / "deferred.h"

    def fill(new: Path) -> None:
        compiler = Compiler(bench, new)
        include = places.official_headers / "torch" / "include"
        words = ["-std=c++17", "-fvisibility=hidden", "-fvisibility-inlines-hidden", "-DNDEBUG", "-fclang-abi-compat=17"]
        words += ["-D_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS=1", f"-I{include}", f"-I{header.parent}"]
        words += [f"-I{include / 'torch' / 'csrc' / 'api' / 'include'}"]
        part = compiler.compile(source, *words)
        stubs = write_stubs(places, libraries)
        linked = [str(torch / "lib" / name) for name in ("libtorch_cpu.dylib", "libc10.dylib")]
        compiler.link(PROBE, f"@rpath/{PROBE}", [part], *linked, str(stubs[CXX]), str(stubs[SYSTEM]))
        remove(part)

    fill_once(folder, [bench.pin.tools, source.read_bytes(), header.read_bytes(), str(torch)], fill)
    return folder / PROBE


def _language(name: str) -> tuple[str, ...]:
    if name.endswith(".cpp"):
        return ("-std=c++17", "-fno-exceptions", "-fno-rtti")
    return ("-std=c11", "-fexceptions") if name.endswith(".c") else ()


def _includes(library: Path) -> list[str]:
    folders = ("libcxx/src", "libcxx/libc", "libcxxabi/src", "libunwind/include")
    return [f"-I{library / folder}" for folder in folders]


def _cxx_sources(library: Path) -> list[Path]:
    folders = ("libcxx/src", "libcxx/src/filesystem", "libcxx/src/ryu", "libcxxabi/src")
    found = [path for folder in folders for path in sorted((library / folder).glob("*.cpp"))]
    return [path for path in found if path.name not in _LEFT_OUT]
