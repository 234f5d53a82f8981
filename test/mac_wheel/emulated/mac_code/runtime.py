"""Build what stands for macOS's libraries, for arm64: LLVM's libc++ and libunwind, a piece of libSystem, and the probe."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from fork_tool.common.files import fill_once, remove
from fork_tool.mac_library.libraries import AppleLibrary, CXX, SYSTEM, write_stubs
from fork_tool.mac_library.link import linker_of
from fork_tool.mac_library.make import Bench
from mac_code.process import LIBCXX

HERE = Path(__file__).resolve().parent
_SHIM, _PROGRAMS = (HERE / "shim.c", HERE / "blocks.c"), (HERE / "programs.cpp", HERE / "arguments.cpp")
# What libc++'s sources need to know of themselves, beside what the compiler says of it.
_CXX_WORDS = (
    *("-std=c++23", "-fvisibility=hidden", "-fvisibility-inlines-hidden"),
    *("-D_LIBCPP_BUILDING_LIBRARY", "-D_LIBCXXABI_BUILDING_LIBRARY", "-DLIBCXX_BUILDING_LIBCXXABI"),
    *("-U_LIBCPP_DISABLE_VISIBILITY_ANNOTATIONS", "-U_LIBCXXABI_DISABLE_VISIBILITY_ANNOTATIONS"),
)
_CXX_FOLDERS = ("libcxx/src", "libcxx/src/filesystem", "libcxx/src/ryu", "libcxxabi/src")
# Sources of which another one has the functions.
_LEFT_OUT = ("cxa_noexception.cpp", "int128_builtins.cpp", "new.cpp")
_UNWIND = {
    "libunwind.cpp": ("-std=c++17", "-fno-exceptions", "-fno-rtti"),
    "UnwindLevel1.c": ("-std=c11", "-fexceptions"),
    "UnwindRegistersRestore.S": (),
    "UnwindRegistersSave.S": (),
}


class Compiler:
    """The compiler and the linker of `make wheel`."""

    def __init__(self, bench: Bench, folder: Path):
        self.bench, self.folder = bench, folder
        headers = bench.places.official_headers / "torch/include"
        # The words for sources that include torch's headers, as an extension does.
        self.for_torch = ["-std=c++17", "-fclang-abi-compat=17", "-D_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS=1"]
        self.for_torch += [f"-I{headers}", f"-I{headers / 'torch/csrc/api/include'}"]

    def run(self, *command: str | Path) -> str:
        """Run a command; returns what it prints."""
        environment = os.environ | self.bench.places.compiler_environment
        return subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, text=True).stdout

    def words(self, source: Path) -> list[str | Path]:
        """The command that compiles one source, without what is its own."""
        words = f"-target aarch64-macos.{self.bench.pin.macos} -fno-sanitize=all -O2 -g0 -w -c".split()
        return [self.bench.places.zig, "c++" if source.suffix == ".cpp" else "cc", *words, source]

    def compile(self, source: Path, *words: str) -> Path:
        """The object of one source."""
        output = self.folder / f"{source.name}.o"
        self.run(*self.words(source), *words, "-o", output)
        return output

    def link(self, name: str, objects: Sequence[Path], *words: str | Path, install_name: str = "") -> Path:
        """The library of these objects; what no library given has is looked for in all, at run time."""
        output, pin = self.folder / name, self.bench.pin
        command = [linker_of(self.bench.machine), "-dylib", "-arch", "arm64", "-no_fixup_chains"]
        command += ["-platform_version", "macos", pin.macos, pin.sdk]
        command += ["-undefined", "dynamic_lookup", "-install_name", install_name or f"@rpath/{name}"]
        self.run(*command, "-o", output, *objects, *words)
        for part in objects:
            remove(part)
        return output


def build_runtime(bench: Bench, torch: Path, libraries: Sequence[AppleLibrary]) -> Path:
    """Bring the libraries up to date, in a folder `base` and a folder `extensions`; returns where these are."""
    places, folder = bench.places, bench.places.root / "emulated"
    simulator, deferred = bench.project.layout.simulator_build, places.own / "takeover" / "deferred.h"
    description = (simulator / "mps_simulator.json").read_text()
    # The headers that the series adds.
    added = bench.checkout / "aten/src"

    def build_extensions(new: Path) -> None:
        compiler = Compiler(bench, new)
        words = [*compiler.for_torch, "-fblocks", "-fvisibility=hidden", "-fvisibility-inlines-hidden", "-DNDEBUG"]
        words += [f"-I{deferred.parent}", "-idirafter", str(added)]
        stubs = write_stubs(places, libraries)
        linked = [torch / "lib/libtorch_cpu.dylib", torch / "lib/libc10.dylib", stubs[CXX], stubs[SYSTEM]]
        for name, sources in (("probe", [HERE / "probe.cpp"]), ("programs", _PROGRAMS)):
            compiler.link(f"lib{name}.dylib", [compiler.compile(each, *words) for each in sources], *linked)
        native, shared = Path(json.loads(description)["wheel"]), ["-O1", "-shared", "-fPIC", "-w"]
        of_torch = [f"-I{native / 'include'}", "-D_GLIBCXX_USE_CXX11_ABI=0", f"-L{native / 'lib'}"]
        of_torch += ["-ltorch_cpu", "-lc10", "-std=c++17"]
        # This compiler links with the simulator, of which the other library must know nothing.
        compiler.run(simulator / "bin/mps-clang++", *shared, *of_torch, *_PROGRAMS, "-o", new / "libprograms.so")
        compiler.run(places.zig, "cc", *shared, HERE / "trace.c", "-o", new / "libtrace.so")

    common = [bench.pin.tools, Path(__file__).read_bytes()]
    fill_once(folder / "base", [*common, *(each.read_bytes() for each in _SHIM)], lambda new: _build_base(bench, new))
    read = [deferred, *sorted((added / "ATen/mps").glob("*.h")), *sorted(HERE.glob("*.c*"))]
    wanted = [*common, str(torch), description, *(each.read_bytes() for each in read)]
    fill_once(folder / "extensions", wanted, build_extensions)
    return folder


def _build_base(bench: Bench, new: Path) -> None:
    compiler, llvm = Compiler(bench, new), bench.places.zig.parent / "lib"
    words = ["-ffreestanding", "-fno-builtin", "-fno-stack-protector", "-fvisibility=hidden"]
    compiler.link("libshim.dylib", [compiler.compile(each, *words) for each in _SHIM])
    words = [f"-I{llvm / 'libunwind/include'}", "-D_LIBUNWIND_IS_NATIVE_ONLY", "-DNDEBUG"]
    parts = [compiler.compile(llvm / "libunwind/src" / name, *words, *more) for name, more in _UNWIND.items()]
    compiler.link("libunwind.dylib", parts)
    words = [f"-I{llvm / name}" for name in ("libcxx/src", "libcxx/libc", "libcxxabi/src", "libunwind/include")]
    sources = [path for name in _CXX_FOLDERS for path in sorted((llvm / name).glob("*.cpp"))]
    parts = [compiler.compile(each, *_CXX_WORDS, *words) for each in sources if each.name not in _LEFT_OUT]
    compiler.link("libc++.1.dylib", parts, install_name=LIBCXX)
