"""The official libraries were compiled with libc++ 17 and ours with a newer one: types of torch's headers lie in memory
alike, and functions have the same type names, by which the dispatcher compares kernels."""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from fork_tool.common.files import fill_once
from fork_tool.machine.package_index import pip_command
from mac_code.loaded import Inputs, Loaded
from mac_code.runtime import Compiler

# A release of the compiler with libc++ 17, and what configures the headers where they are not the compiler's own.
CXX_17 = "ziglang==0.12.1"
_CONFIGURATION = ("-D_LIBCPP_ABI_VERSION=1", "-D_LIBCPP_ABI_NAMESPACE=__1", "-D_LIBCPP_PSTL_CPU_BACKEND_SERIAL")
HEADERS = (
    *("ATen/ATen.h", "ATen/core/dispatch/Dispatcher.h", "ATen/detail/MPSHooksInterface.h", "ATen/record_function.h"),
    *("c10/core/impl/DeviceGuardImplInterface.h", "torch/csrc/autograd/variable.h"),
    *("torch/csrc/jit/runtime/operator.h", "ATen/native/DispatchStub.h"),
)
PLANTED = """
#if _LIBCPP_VERSION >= 180000
struct LargerInOne { int first; long second; };
struct OrderedOtherwise { int second; int first; };
#else
struct LargerInOne { int first; };
struct OrderedOtherwise { int first; int second; };
#endif
struct Alike { int first; std::vector<int> second; };
"""
_TYPE = re.compile(r"\s*0 \| (.+?)(?: \(empty\))?")
_FIELD = re.compile(r"\s*(\d+(?::\S+)?) \|   (\S.*)")
_SIZE = re.compile(r"\s*\| +\[sizeof=(\d+), dsize=\d+, align=(\d+),.*")
# Types of functions, as typeid() names them.
_FUNCTION = re.compile(rb"(?<=\0)F(?:N2at|N3c10|NSt|St|RN2at|RKN|v|b|d|l)[A-Za-z0-9_]*E(?=\0)")
# bool and list of int of a list of tensors, and Tensor& of three tensors: bindings and helpers of our library, no kernels.
_OF_BINDINGS = {
    b"FbRKNSt3__16vectorIN2at6TensorENS_9allocatorIS2_EEEEE",
    b"FNSt3__16vectorIxNS_9allocatorIxEEEERKNS0_IN2at6TensorENS1_IS5_EEEEE",
    b"FRN2at6TensorERKS0_S3_S1_E",
}


# Size, alignment, and the offsets and names of the fields; types may have other names in the two versions.
Layout = tuple[str, ...]


@pytest.fixture(scope="session")
def cxx_17(inputs: Inputs) -> list[str]:
    """The words that make the compiler use libc++ 17."""
    folder = inputs.bench.places.root / "emulated" / "libcxx_17"

    def fill(new: Path) -> None:
        subprocess.run(pip_command(Path(sys.executable), ["--target", str(new), CXX_17]), check=True)

    fill_once(folder, CXX_17, fill)
    return ["-nostdinc++", f"-I{folder / 'ziglang/lib/libcxx/include'}", *_CONFIGURATION]


def layouts(inputs: Inputs, source: Path, cxx: Sequence[str]) -> dict[str, Layout]:
    """The complete types outside of libc++ that the source knows, by name."""
    compiler = Compiler(inputs.bench, source.parent)
    dump = ("-Xclang", "-fdump-record-layouts-complete", "-o", source.with_suffix(".o"))
    return dict(_parse(compiler.run(*compiler.words(source), *cxx, *compiler.for_torch, *dump)))


def _parse(dump: str) -> Iterator[tuple[str, Layout]]:
    for part in dump.split("*** Dumping AST Record Layout\n")[1:]:
        first, *lines = part.splitlines()
        name = _TYPE.fullmatch(first)
        if name is None or re.match(r"(?:(?:class|struct|union) )?std::", name[1]):
            continue
        fields: list[str] = []
        for line in lines:
            if end := _SIZE.fullmatch(line):
                yield name[1], (end[1], end[2], *fields)
                break
            if field := _FIELD.fullmatch(line):
                fields += [field[1], field[2].rpartition(" ")[2]]


def test_types_lie_in_memory_alike(inputs: Inputs, loaded: Loaded, cxx_17: list[str], tmp_path: Path) -> None:
    source = tmp_path / "types.cpp"
    source.write_text("".join(f"#include <{name}>\n" for name in HEADERS) + PLANTED)
    ours = layouts(inputs, source, [])
    official = layouts(inputs, source, cxx_17)
    planted = ["struct LargerInOne", "struct OrderedOtherwise"]
    assert {*planted, "struct Alike"} <= ours.keys() & official.keys()
    assert sorted(name for name in ours.keys() & official.keys() if ours[name] != official[name]) == planted
    for name in planted:
        loaded.seen(f"layout: {name}")
    loaded.report["types_alike"] = len(ours.keys() & official.keys()) - len(planted)
    assert loaded.report["types_alike"] > 4000


def test_functions_have_the_official_type_names(inputs: Inputs, loaded: Loaded) -> None:
    library = (inputs.official / "libtorch_cpu.dylib").read_bytes()
    # Kernels take tensors.
    found = _FUNCTION.findall(inputs.library.read_bytes())
    names = {name for name in found if b"2at6Tensor" in name and b"pybind11" not in name}
    planted = b"FN2at6TensorERKS0_ixE"
    assert {name for name in (*names, planted) if b"\0" + name + b"\0" not in library} == {*_OF_BINDINGS, planted}
    loaded.seen("a type name of a function that libtorch_cpu lacks")
    loaded.report["function_types"] = len(names)
    assert len(names) > 200
