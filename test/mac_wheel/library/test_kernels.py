"""Where the library has its Metal kernels from, and that each thing that is wrong with the official ones is named."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

import pytest

from fork_tool.base.checkout import Checkout
from fork_tool.common.errors import ForkToolError
from fork_tool.common.git import Git
from fork_tool.mac_library.headers import python_headers
from fork_tool.mac_library.kernels import (
    changed_kernels,
    describe_kernels,
    FOLDER,
    function_names,
    kernel_files,
    kernel_findings,
    mode_findings,
    SECTIONS,
    sections_of,
    wanted_names,
)
from fork_tool.mac_library.make import checkout_of, kernels_findings
from fork_tool.mac_library.ninja_file import ninja_text
from made_wheel import Made

OLD = "metal_basic"
HEADER = "c10/metal/common.h"
KERNEL = f"{FOLDER}/kernels/Scale.metal"
TEXT = """#include <metal_stdlib>
#include <c10/metal/common.h>
using namespace metal;
template <typename T> kernel void scale(device T* data [[buffer(0)]], uint at [[thread_position_in_grid]]) { data[at] *= 2; }
#define INSTANTIATE(KIND, TYPE) \\
  template [[host_name("scale_" KIND "_" #TYPE)]] kernel void scale<TYPE>(device TYPE* data [[buffer(0)]], uint at [[thread_position_in_grid]])
INSTANTIATE("one", float);
#if __METAL_VERSION__ >= 310
INSTANTIATE("one", bfloat);
#endif
kernel void plain(device float* data) {}
[[host_name("named")]] kernel void another(device float* data) {}
// kernel void nowhere(device float* data)
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A checkout of one kernel that includes one header."""
    git = Git(tmp_path / "pytorch")
    for name, text in ((KERNEL, TEXT), (HEADER, "#pragma once\n"), ("c10/other.h", "#pragma once\n")):
        path = git.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    command = ["git", "-C", str(git.directory), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "base"]):
        subprocess.run([*command, *words], check=True)
    base = git.resolve("HEAD")
    assert base is not None
    return Checkout(git, base, "build/pytorch")


def test_the_official_kernels_are_those_of_the_sources(made: Made) -> None:
    """The same names, by the sources for each version of the language and by the sections."""
    assert changed_kernels(checkout_of(made.bench)) == []
    assert kernels_findings(made.bench, made.lief, made.library, made.torch, []) == []
    sections = sections_of(made.lief, made.torch / "lib" / "libtorch_cpu.dylib")
    assert {name: len(function_names(content)) for name, content in sections.items()} == {
        "metal_bfloat": 196,
        "metal_basic": 159,
    }


@pytest.fixture(scope="module")
def section(made: Made) -> bytes:
    return sections_of(made.lief, made.torch / "lib" / "libtorch_cpu.dylib")[OLD]


def test_a_section_that_is_not_whole_is_named(section: bytes) -> None:
    names = set(function_names(section))
    where = f"__TEXT,{OLD} of the official libtorch_cpu.dylib"

    def said(content: bytes) -> list[str]:
        return kernel_findings({OLD: content}, {OLD: names})

    assert said(section) == []
    short = section[:-100]
    assert said(short) == [f"{where} has {len(short):,} bytes and says that it has {len(section):,}"]
    cut = section[:500]
    cut = cut[:16] + struct.pack("<Q", len(cut)) + cut[24:]
    assert said(cut) == [f"{where} is cut off in the list of its functions"]
    assert said(b"\0" * len(section)) == [f"{where} is no library of Metal's"]
    assert said(section[:20]) == [f"{where} is cut off in the list of its functions"]
    assert kernel_findings({}, {OLD: names}) == [f"there is no {where}: no kernel would be found"]


def test_a_kernel_too_few_or_too_many_is_named(section: bytes) -> None:
    names = set(function_names(section))
    some = sorted(names)[0]
    assert kernel_findings({OLD: section}, {OLD: names | {"frobnicate"}}) == [
        f"__TEXT,{OLD} of the official libtorch_cpu.dylib lacks the kernel frobnicate"
    ]
    assert kernel_findings({OLD: section}, {OLD: names - {some}}) == [
        f"__TEXT,{OLD} of the official libtorch_cpu.dylib has the kernel {some}, which the sources don't"
    ]


def test_names_by_the_sources(made: Made, checkout: Checkout) -> None:
    places, folder = made.bench.places, checkout.git.directory
    assert wanted_names(places, folder, 300) == {"scale_one_float", "plain", "named"}
    assert wanted_names(places, folder, 310) == {"scale_one_float", "scale_one_bfloat", "plain", "named"}
    (folder / KERNEL).write_text("#if 1\n")
    with pytest.raises(
        ForkToolError, match=r"Scale\.metal could not be read .* \(unterminated conditional directive\): fix that file"
    ):
        wanted_names(places, folder, 300)


def test_a_changed_kernel_is_compiled_from_source(made: Made, checkout: Checkout) -> None:
    folder = checkout.git.directory
    assert changed_kernels(checkout) == []
    (folder / "c10/other.h").write_text("// changed, and included by no kernel\n")
    assert changed_kernels(checkout) == []
    # As a copy of the checkout has it: git can't tell by the time that the content is the same.
    os.utime(folder / KERNEL, (1, 1))
    assert changed_kernels(checkout) == []
    (folder / HEADER).write_text("// changed\n")
    assert changed_kernels(checkout) == [HEADER]
    (folder / KERNEL).write_text(TEXT + "// changed\n")
    (folder / FOLDER / "New.metal").write_text("kernel void fresh() {}\n")
    assert changed_kernels(checkout) == [f"{FOLDER}/New.metal", KERNEL, HEADER]
    (folder / KERNEL).unlink()
    (folder / FOLDER / "New.metal").unlink()
    assert changed_kernels(checkout) == [KERNEL]
    assert describe_kernels([KERNEL]) == f"source, compiled at first use: the series changes {KERNEL}"
    assert describe_kernels([]) == "compiled, the official wheel's"


def test_what_is_compiled_in_either_case(made: Made) -> None:
    bench = made.bench
    headers = python_headers(bench.places, bench.pin, bench.python, bench.cache)

    def text(as_source: bool) -> str:
        interpreter = bench.project.layout.python
        return ninja_text(
            bench.places, bench.pin, bench.checkout, bench.python, headers, interpreter, kernels_as_source=as_source
        )

    wrapped = [f"{kernel.stem}_metallib.h" for kernel in kernel_files(bench.checkout)]
    assert len(wrapped) == 15
    assert all(name in text(True) for name in wrapped) and "-DPYTORCH_JIT_COMPILE_SHADERS" in text(True)
    assert not any(name in text(False) for name in wrapped) and "PYTORCH_JIT_COMPILE_SHADERS" not in text(False)


def test_a_library_with_the_wrong_kernels_is_named() -> None:
    reads = {"_getsectiondata", "_malloc"}
    assert mode_findings(reads, []) == [] and mode_findings({"_malloc"}, [KERNEL]) == []
    assert mode_findings(reads, [KERNEL]) == ["it reads the official wheel's kernels, though the series changes some"]
    assert mode_findings({"_malloc"}, []) == [
        "it does not read the official wheel's kernels, which are those that it needs"
    ]


def test_every_section_is_one_that_the_base_reads(made: Made) -> None:
    source = (made.bench.checkout / "aten/src/ATen/native/mps/OperationUtils.mm").read_text()
    assert all(f'"{name}"' in source for name in SECTIONS)
    assert '"/libtorch_cpu.dylib"' in source
