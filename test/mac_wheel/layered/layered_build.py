"""Builds what the suite runs on: a backend of the base below, the patched one on top as a library of its own.

    .venv/bin/python test/mac_wheel/layered/layered_build.py

`build/layered/official` is the simulator with the backend of the base. It stands for the official wheel, whose
libtorch_cpu has that backend in it. `build/layered/python` is where `torch` finds the Python files of the series, its
loader and `lib/libtorch_mps_graph.so`. That library is linked from the objects of `build/simulator`, but for the
sources that register something and those of `scripts/mac_wheel/takeover`, which are compiled as a wheel's build does.
"""

import json
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts"))

from fork_tool.common.files import write_if_changed  # noqa: E402
from fork_tool.mac_library.ninja_file import NinjaFile  # noqa: E402
from fork_tool.mac_library.pin import load_mac_pin  # noqa: E402
from fork_tool.mac_library.places import MacPlaces  # noqa: E402
from fork_tool.mac_library.python_files import with_loader  # noqa: E402
from fork_tool.mac_library.tools import install_tools  # noqa: E402
from fork_tool.paths import own_layout  # noqa: E402
from fork_tool.series.project import Project  # noqa: E402
from fork_tool.suites.simulator import base_sources  # noqa: E402

HERE = Path(__file__).resolve().parent
TAKEOVER = ROOT / "scripts/mac_wheel/takeover"
PYTHON_FILES = ROOT / "scripts/mac_wheel/python"
SIMULATOR = ROOT / "build/simulator"
CHECKOUT = ROOT / "build/pytorch"
BASE_CHECKOUT = ROOT / "build/pytorch-base"
LAYERED = ROOT / "build/layered"
OFFICIAL = LAYERED / "official"
TORCH = LAYERED / "python/torch"
LIBRARY = TORCH / "lib/libtorch_mps_graph.so"
# What registers operators, stubs, guard or hooks while the program starts.
REGISTERS = re.compile(r"^\s*(TORCH_LIBRARY|REGISTER_(MPS_)?DISPATCH|REGISTER_MPS_HOOKS)|MPSGuardImpl\.h", re.MULTILINE)
# Of libtorch_cpu on a Mac; the simulator's build has them in its own library.
NOT_OF_THE_BACKEND = ("aten/src/ATen/native/DispatchStub.cpp", "torch/csrc/api/src/mps.cpp")


class BuildError(RuntimeError):
    """The layered build cannot be made; the message says what to do."""


@dataclass(frozen=True)
class Compilation:
    """One source and how the simulator's build compiles it."""

    source: Path
    words: tuple[str, ...]
    output: Path

    def again(self, source: Path, output: Path, *flags: str) -> str:
        """The command that compiles `source` to `output` with these flags more."""
        kept: list[str] = []
        words = iter(self.words)
        for word in words:
            if word in ("-o", "-c"):
                next(words)
            else:
                kept.append(word)
        return shlex.join(["ccache", *kept, *flags, "-MD", "-MF", f"{output}.d", "-c", str(source), "-o", str(output)])


def compilations() -> list[Compilation]:
    """The backend's sources in the simulator's build of the patched checkout."""
    path = SIMULATOR / "compile_commands.json"
    if not path.exists():
        raise BuildError(f"{path} is missing: run `make simulator`.")
    entries: list[dict[str, Any]] = json.loads(path.read_text())
    found = []
    for entry in entries:
        words = tuple(shlex.split(entry["command"]))
        output = Path(words[words.index("-o") + 1])
        source = Path(entry["file"])
        target = re.match(r"CMakeFiles/(\w+)\.dir/", str(output))
        if target is None or source.name.startswith("cmake_pch"):
            continue
        backend = target[1] in ("backend_runtime", "backend_operations", "backend_registrations")
        bindings = target[1] == "mps_bindings" and "torch/csrc/mps" in str(source)
        if (backend or bindings) and not str(source).endswith(NOT_OF_THE_BACKEND):
            found.append(Compilation(source, words, SIMULATOR / output))
    return found


def build_id(library: Path) -> bytes:
    """The first 16 bytes of an ELF library's build id."""
    printed = subprocess.run(["readelf", "-n", str(library)], capture_output=True, text=True, check=True).stdout
    found = re.search(r"Build ID: ([0-9a-f]+)", printed)
    if found is None:
        raise BuildError(f"{library} has no build id.")
    return bytes.fromhex(found[1])[:16]


def write(path: Path, text: str) -> None:
    """Writes a file unless it is like that already, so that nothing is built again for it."""
    write_if_changed(path, text.encode())


def write_identity(directory: Path, identity: bytes) -> None:
    """Writes the header that on a Mac the wheel's build makes of the official library."""
    numbers = ", ".join(f"0x{byte:02x}" for byte in identity)
    text = f"#pragma once\n#include <cstdint>\nconstexpr uint8_t kOfficialTorchCpuUuid[16] = {{{numbers}}};\n"
    write(directory / "mac_library_generated/official_library.h", text)


def ninja_text(wheel: Path) -> str:
    """The build of the library and of those with a fault planted in them."""
    every = compilations()
    exports = HERE / "exports.map"
    file = NinjaFile(MacPlaces(ROOT), LAYERED)
    file.rule("compile", "$command", "compiling $in", depfile="$out.d", deps="gcc")
    file.rule(
        "link",
        f"clang++-19 -shared -fuse-ld=lld -Wl,-Bsymbolic -Wl,-z,undefs -Wl,--version-script={exports} -o $out $in $libraries",
        "linking $out",
    )
    defer = ("-include", str(TAKEOVER / "deferred_registrations.h"), "-I", str(LAYERED / "identity"))
    objects: dict[str, Path] = {}

    def compiled(name: str, how: Compilation, source: Path, *flags: str) -> Path:
        output = LAYERED / "objects" / f"{name}.o"
        file.build(output, "compile", [source], command=how.again(source, output.relative_to(ROOT), *flags))
        return output

    for one in every:
        name = str(one.source).replace(str(CHECKOUT) + "/", "").replace("/", "_")
        registers = REGISTERS.search(one.source.read_text())
        objects[one.source.name] = compiled(name, one, one.source, *defer) if registers else one.output
    plain = next(one for one in every if one.source.name == "RegisterMPS.cpp")
    python = next(one for one in every if str(one.source).endswith("torch/csrc/mps/Module.cpp"))
    for source in sorted(TAKEOVER.glob("*.cpp")):
        how = python if source.name == "bindings.cpp" else plain
        objects[source.name] = compiled(source.name, how, source, *defer)
    for source in (ROOT / "test/simulator/support/functions_run.cpp", HERE / "patched_functions.cpp"):
        objects[source.name] = compiled(source.name, plain, source)
    wrong = LAYERED / "wrong_identity"
    other = compiled("official_of_another", plain, TAKEOVER / "official.cpp", *defer[:2], "-I", str(wrong))

    objfw = json.loads((SIMULATOR / "mps_simulator.json").read_text())["library"]
    assert objfw
    libraries = [
        OFFICIAL / "libmps_simulator.so",
        *(wheel / "lib" / f"lib{name}.so" for name in ("torch_python", "torch_cpu", "c10")),
    ]
    libraries += sorted((ROOT / "build/toolchain/objfw").rglob("libobjfw*.so.1"))
    directories = sorted({str(library.parent) for library in libraries})
    words = " ".join(
        [*map(str, libraries), *(f"-Wl,-rpath,{directory}" for directory in directories), "-lpthread -ldl"]
    )

    def linked(library: Path, parts: dict[str, Path]) -> None:
        file.build(library, "link", parts.values(), [exports], libraries=words)

    linked(LIBRARY, objects)
    planted = LAYERED / "planted"
    linked(planted / "another_official.so", objects | {"official.cpp": other})
    for name, left_out in {"no_copy": "copy.cpp", "no_cross": "CrossKernel.mm"}.items():
        linked(planted / f"{name}.so", {key: path for key, path in objects.items() if key != left_out})
    return file.text()


def lay_out_python(wheel: Path) -> None:
    """Puts together the Python files, as a wheel's build would, and what mps_simulator reads about a build."""
    changed: dict[str, str] = json.loads((SIMULATOR / "changed_modules.json").read_text())
    modules = {}
    for module, path in changed.items():
        relative = Path(path).relative_to(CHECKOUT / "torch")
        write(TORCH / relative, Path(path).read_text())
        modules[module] = str(TORCH / relative)
    # mps_simulator takes this package as a whole from the checkout.
    for source in (CHECKOUT / "torch/mps").glob("*.py"):
        write(TORCH / "mps" / source.name, source.read_text())
    stock = (wheel / "__init__.py").read_text()
    # The device of the wheel for macOS is in its libtorch_cpu; here it must be brought.
    brought = "_mps_layered_device.load()"
    text = with_loader(stock).replace(
        "from torch import _mps_graph_loader", f"from torch import _mps_graph_loader, _mps_layered_device; {brought}"
    )
    assert brought in text
    write(TORCH / "__init__.py", text)
    modules["torch"] = str(TORCH / "__init__.py")
    for source in (PYTHON_FILES / "_mps_graph_loader.py", HERE / "_mps_layered_device.py"):
        write(TORCH / source.name, source.read_text())
        modules[f"torch.{source.stem}"] = str(TORCH / source.name)
    tests = TORCH.parent / "test"
    if not tests.is_symlink():
        tests.symlink_to(CHECKOUT / "test")
    facts = json.loads((OFFICIAL / "mps_simulator.json").read_text())
    facts["checkout"] = str(TORCH.parent)
    write(LAYERED / "mps_simulator.json", json.dumps(facts, indent=2) + "\n")
    write(LAYERED / "changed_modules.json", json.dumps(modules, indent=2) + "\n")
    # Extensions see the headers of the series, and are linked with its library first, as with the wheel.
    compiler = (OFFICIAL / "bin/mps-clang++").read_text()
    for before, after in ((str(BASE_CHECKOUT), str(CHECKOUT)), ("'-lmps_simulator'", f"'{LIBRARY}' '-lmps_simulator'")):
        assert before in compiler
        compiler = compiler.replace(before, after)
    write(LAYERED / "bin/mps-clang++", compiler)
    (LAYERED / "bin/mps-clang++").chmod(0o755)


def run(words: list[str]) -> None:
    """Runs a command whose failure is the build's."""
    if subprocess.run(words, cwd=ROOT).returncode:
        raise BuildError(f"This failed, see above: {shlex.join(words)}")


def build() -> None:
    """Brings the layered build up to date."""
    base_sources(Project(own_layout()))
    settings = json.loads((SIMULATOR / "mps_simulator.json").read_text())
    arguments = [f"-DTORCH_CHECKOUT={BASE_CHECKOUT}", f"-DPYTHON={settings['python']}", "-DCOVER_RUNTIME=ON"]
    arguments.append(f"-DOBJFW_ROOT={ROOT / 'build/toolchain/objfw'}")
    run(["cmake", "-S", str(ROOT / "test/simulator"), "-B", str(OFFICIAL), "-G", "Ninja", *arguments])
    run(["ninja", "-C", str(OFFICIAL), "mps_simulator", "mps_bindings", "changed_modules"])
    wheel = Path(settings["wheel"])
    identity = build_id(wheel / "lib/libtorch_cpu.so")
    write_identity(LAYERED / "identity", identity)
    write_identity(LAYERED / "wrong_identity", bytes(255 - byte for byte in identity))
    install_tools(MacPlaces(ROOT), load_mac_pin(own_layout().pin))
    write(LAYERED / "build.ninja", ninja_text(wheel))
    lay_out_python(wheel)
    run(["ninja", "-f", str(LAYERED / "build.ninja")])


if __name__ == "__main__":
    try:
        build()
    except BuildError as error:
        sys.exit(f"error: {error}")
