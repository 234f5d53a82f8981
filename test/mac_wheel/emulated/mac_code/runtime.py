"""Build what stands for macOS's libraries, for arm64: LLVM's libc++ and libunwind, a piece of libSystem, and the probe."""

import json
import os
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from fork_tool.common.files import fill_once, remove
from fork_tool.mac_library.libraries import AppleLibrary, CXX, SYSTEM, write_stubs
from fork_tool.mac_library.link import linker_of
from fork_tool.mac_library.make import Bench

HERE = Path(__file__).resolve().parent
LIBCXX = "/usr/lib/libc++.1.dylib"
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


class Runtime(NamedTuple):
    """The libraries that were built."""

    shim: Path
    unwind: Path
    cxx: Path
    probe: Path
    programs: Path
    # The same for the simulator, and what notes its messages.
    native_programs: Path
    trace: Path


class Compiler:
    """The compiler and the linker of `make wheel`."""

    def __init__(self, bench: Bench, folder: Path):
        self.bench, self.folder = bench, folder

    def compile(self, source: Path, *words: str) -> Path:
        """The object of one source."""
        places = self.bench.places
        output = self.folder / f"{source.name}.o"
        command = [str(places.zig), "c++" if source.suffix == ".cpp" else "cc", "-fno-sanitize=all", "-O2", "-g0", "-w"]
        command += ["-target", f"aarch64-macos.{self.bench.pin.macos}", *words, "-c", str(source), "-o", str(output)]
        subprocess.run(command, check=True, env=os.environ | places.compiler_environment)
        return output

    def link(self, name: str, objects: Sequence[Path], *words: str, install_name: str = "") -> Path:
        """The library of these objects; what no library given has is looked for in all, at run time."""
        output = self.folder / name
        pin = self.bench.pin
        command = [linker_of(self.bench.machine), "-dylib", "-arch", "arm64", "-no_fixup_chains"]
        command += ["-platform_version", "macos", pin.macos, pin.sdk]
        command += ["-undefined", "dynamic_lookup", "-install_name", install_name or f"@rpath/{name}"]
        subprocess.run([*command, "-o", str(output), *map(str, objects), *words], check=True)
        for part in objects:
            remove(part)
        return output


def build_runtime(bench: Bench, torch: Path, libraries: Sequence[AppleLibrary]) -> Runtime:
    """Bring the libraries up to date."""
    places = bench.places
    folder, llvm, headers = (
        places.root / "emulated",
        places.zig.parent / "lib",
        places.official_headers / "torch/include",
    )
    shims, deferred = (HERE / "shim.c", HERE / "blocks.c"), places.own / "takeover" / "deferred.h"
    extensions = {"probe": [HERE / "probe.cpp"], "programs": [HERE / "programs.cpp", HERE / "arguments.cpp"]}
    # The headers that the series adds.
    added = bench.checkout / "aten/src"

    def build_base(new: Path) -> None:
        compiler = Compiler(bench, new)
        words = ["-ffreestanding", "-fno-builtin", "-fno-stack-protector", "-fvisibility=hidden"]
        compiler.link("libshim.dylib", [compiler.compile(each, *words) for each in shims])
        words = [f"-I{llvm / 'libunwind/include'}", "-D_LIBUNWIND_IS_NATIVE_ONLY", "-DNDEBUG"]
        parts = [compiler.compile(llvm / "libunwind/src" / name, *words, *more) for name, more in _UNWIND.items()]
        compiler.link("libunwind.dylib", parts)
        words = [f"-I{llvm / name}" for name in ("libcxx/src", "libcxx/libc", "libcxxabi/src", "libunwind/include")]
        sources = [path for name in _CXX_FOLDERS for path in sorted((llvm / name).glob("*.cpp"))]
        parts = [compiler.compile(each, *_CXX_WORDS, *words) for each in sources if each.name not in _LEFT_OUT]
        compiler.link("libc++.1.dylib", parts, install_name=LIBCXX)

    def build_extension(new: Path, name: str) -> None:
        """Bound to the official libraries, as an extension is."""
        compiler = Compiler(bench, new)
        words = ["-std=c++17", "-fblocks", "-fvisibility=hidden", "-fvisibility-inlines-hidden", "-DNDEBUG"]
        words += ["-fclang-abi-compat=17", "-D_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS=1", f"-I{headers}"]
        words += [f"-I{deferred.parent}", f"-I{headers / 'torch/csrc/api/include'}", "-idirafter", str(added)]
        parts = [compiler.compile(each, *words) for each in extensions[name]]
        stubs = write_stubs(places, libraries)
        linked = [torch / "lib/libtorch_cpu.dylib", torch / "lib/libc10.dylib", stubs[CXX], stubs[SYSTEM]]
        compiler.link(f"lib{name}.dylib", parts, *map(str, linked))

    words_of_this = Path(__file__).read_bytes()
    fill_once(folder / "base", [bench.pin.tools, *(each.read_bytes() for each in shims), words_of_this], build_base)
    read = [deferred, *sorted((added / "ATen/mps").glob("*.h"))]
    for name, sources in extensions.items():
        wanted = [bench.pin.tools, *(each.read_bytes() for each in (*sources, *read)), str(torch), words_of_this]
        fill_once(folder / name, wanted, partial(build_extension, name=name))
    native = _for_this_machine(folder / "native", bench, extensions["programs"], read)
    names = ["base/libshim.dylib", "base/libunwind.dylib", "base/libc++.1.dylib"]
    names += ["probe/libprobe.dylib", "programs/libprograms.dylib"]
    return Runtime(*(folder / name for name in names), *native)


def _for_this_machine(folder: Path, bench: Bench, programs: Sequence[Path], read: Sequence[Path]) -> list[Path]:
    simulator, trace = bench.project.layout.simulator_build, HERE / "trace.c"
    description = (simulator / "mps_simulator.json").read_text()
    torch = Path(json.loads(description)["wheel"])
    of_torch = [f"-I{torch / 'include'}", "-D_GLIBCXX_USE_CXX11_ABI=0", f"-L{torch / 'lib'}", "-ltorch_cpu", "-lc10"]
    compiler, words = str(simulator / "bin/mps-clang++"), ["-O1", "-shared", "-fPIC", "-w"]
    # The first compiler links with the simulator, of which the other library must know nothing.
    commands = {
        "libprograms.so": [compiler, *words, "-std=c++17", *of_torch, *map(str, programs)],
        "libtrace.so": [str(bench.places.zig), "cc", *words, str(trace)],
    }

    def build(new: Path) -> None:
        environment = os.environ | bench.places.compiler_environment
        for name, command in commands.items():
            subprocess.run([*command, "-o", str(new / name)], check=True, env=environment)

    fill_once(folder, [commands, description, *(each.read_bytes() for each in (*programs, trace, *read))], build)
    return [folder / name for name in commands]
