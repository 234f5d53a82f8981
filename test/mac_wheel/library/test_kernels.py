"""Where the library has its Metal kernels from."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from fork_tool.base.checkout import Checkout
from fork_tool.common.git import Git
from fork_tool.mac_library.headers import python_headers
from fork_tool.mac_library.kernels import (
    changed_kernels,
    describe_kernels,
    FOLDER,
    kernel_files,
    kernel_findings,
    SECTIONS,
)
from fork_tool.mac_library.make import checkout_of
from fork_tool.mac_library.ninja_file import ninja_text
from made_wheel import ENTRIES, Made, SmallLibraries

HEADER = "c10/metal/common.h"
KERNEL = f"{FOLDER}/kernels/Scale.metal"
TEXT = "#include <metal_stdlib>\n#include <c10/metal/common.h>\nkernel void plain(device float* data) {}\n"


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


def test_the_official_wheel_has_the_kernels(made: Made, small: SmallLibraries) -> None:
    assert changed_kernels(checkout_of(made.bench)) == []
    official = made.torch / "lib" / "libtorch_cpu.dylib"
    assert kernel_findings(official, made.library, []) == []
    assert kernel_findings(official, made.library, [KERNEL]) == [
        "it reads the official wheel's kernels, though the series changes some"
    ]
    without = small.link(small.compile(ENTRIES))
    assert kernel_findings(official, without, [KERNEL]) == []
    assert kernel_findings(official, without, []) == [
        "it does not read the official wheel's kernels, which are those that it needs"
    ]
    assert kernel_findings(without, made.library, []) == [
        f"{without.name} has no kernels in {name}" for name in SECTIONS
    ]


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


def test_every_section_is_one_that_the_base_reads(made: Made) -> None:
    source = (made.bench.checkout / "aten/src/ATen/native/mps/OperationUtils.mm").read_text()
    assert all(f'"{name}"' in source for name in SECTIONS)
    assert '"/libtorch_cpu.dylib"' in source
