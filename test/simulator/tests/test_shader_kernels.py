"""Every Metal kernel of PyTorch's MPS backend compiles. Upstream's tests compare their results with the CPU's."""

from __future__ import annotations

import re

import pytest
from shader_harness import REPOSITORY, Shader

KERNELS = REPOSITORY / "build/pytorch/aten/src/ATen/native/mps/kernels"


@pytest.mark.parametrize("file", sorted(path.stem for path in KERNELS.glob("*.metal")))
def test_file_compiles(file: str) -> None:
    """Every kernel of every file is found, and its arguments are the ones in the text."""
    source = (KERNELS / f"{file}.metal").read_text(encoding="utf-8")
    shader = Shader("\n" + source)
    assert len(shader.names) >= max(1, len(re.findall(r"host_name", source)))
    assert len(set(shader.names)) == len(shader.names)
    for name in shader.names:
        arguments = shader.arguments(name)
        assert arguments
        indices = [argument.index for argument in arguments if not argument.threadgroup]
        assert indices == sorted(set(indices))
        assert any(argument.writable for argument in arguments)


def test_there_are_kernel_files() -> None:
    assert KERNELS.is_dir(), f"{KERNELS} is missing: fetch and apply the base first"
    assert len(list(KERNELS.glob("*.metal"))) >= 15
