"""Every Metal kernel of PyTorch's MPS backend compiles; those that no operator reaches with small tensors run here.

Upstream's tests compare the others with the CPU, through their operators.
"""

from __future__ import annotations

import functools
import itertools
import re
import struct
from typing import Any

import pytest
import torch
from shader_harness import REPOSITORY, Shader

KERNELS = REPOSITORY / "build/pytorch/aten/src/ATen/native/mps/kernels"

FLOATS = [torch.float32, torch.float16, torch.bfloat16]
METAL_NAMES = dict(zip([*FLOATS, torch.int32], ["float", "half", "bfloat", "int"]))


def name_of(dtype: torch.dtype) -> str:
    """For test ids."""
    return str(dtype).replace("torch.", "")


def over(*dtypes: torch.dtype) -> pytest.MarkDecorator:
    """Parametrizes a test over dtypes."""
    return pytest.mark.parametrize("dtype", dtypes, ids=name_of)


@functools.cache
def kernels(file: str) -> Shader:
    """A ``.metal`` file as the backend passes it to the runtime compiler."""
    return Shader("\n" + (KERNELS / f"{file}.metal").read_text(encoding="utf-8"))


def numbers(*values: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """A small tensor to bind as a constant."""
    return torch.tensor(values, dtype=dtype)


def random(shape: Any, dtype: torch.dtype, seed: int = 0, low: int = -50, high: int = 50) -> torch.Tensor:
    """Reproducible values: normal for floating types, uniform for the others."""
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.randint(low, high, shape, generator=generator).to(dtype)


@pytest.mark.parametrize("file", sorted(path.stem for path in KERNELS.glob("*.metal")))
def test_file_compiles(file: str) -> None:
    """Every kernel of every file is found, and its arguments are the ones in the text."""
    shader = kernels(file)
    hosts = len(re.findall(r"host_name", (KERNELS / f"{file}.metal").read_text(encoding="utf-8")))
    assert len(shader.names) >= max(1, hosts)
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


# -- kernels by themselves -------------------------------------------------------------------------------------------

INDEX_TYPES = {8: torch.int8, 16: torch.int16, 32: torch.int32, 64: torch.int64}


def index_bindings(
    source: torch.Tensor, indices: list[torch.Tensor], result: torch.Tensor, wide: bool, selecting: bool
) -> list[Any]:
    """Bindings for x[indices] over the first dimensions; offsets are (output, input, index)."""
    size = source.element_size()
    tail = 1
    for extent in source.shape[len(indices) :]:
        tail *= extent
    count = indices[0].numel() * tail
    flat = torch.arange(count)
    contiguous = flat * size
    strided = (flat % tail) * size
    rows = torch.zeros(count, 4, dtype=torch.int64)
    rows[:, 0] = contiguous if selecting else strided
    rows[:, 1] = strided if selecting else contiguous
    rows[:, 2] = flat // tail * 8
    pointers = struct.pack(f"<{len(indices)}Q", *(index.data_ptr() for index in indices))
    shape = numbers(*source.shape[: len(indices)])
    strides = numbers(*(stride * size for stride in source.stride()[: len(indices)]))
    offsets = rows if wide else rows.to(torch.int32)
    data = [source, result] if selecting else [result, source]
    return [pointers, shape, strides, offsets, *data, len(indices)]


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("wide", [False, True], ids=["idx32", "idx64"])
def test_index_select_and_put(bits: int, wide: bool) -> None:
    shader = kernels("Indexing")
    dtype = INDEX_TYPES[bits]
    suffix = f"{bits}bit_idx{64 if wide else 32}"
    source = random((5, 6, 4), dtype, low=-100, high=100)
    order = torch.randperm(30, generator=torch.Generator().manual_seed(5))[:20]
    indices = [order // 6, order % 6 - 6]
    result = torch.empty(20, 4, dtype=dtype)
    bindings = index_bindings(source, indices, result, wide, True)
    shader.run(f"index_select_{suffix}", bindings, result.numel())
    assert torch.equal(result, source[indices[0], indices[1]])

    values = random((20, 4), dtype, 1, low=-100, high=100)
    expected = source.clone()
    expected[indices[0], indices[1]] = values
    for kernel in ("put", "put_serial"):
        target = source.clone()
        bindings = index_bindings(target, indices, values, wide, False)
        if kernel == "put":
            shader.run(f"index_put_{suffix}", bindings, values.numel())
        else:
            shader.run(f"index_put_serial_{suffix}", [*bindings, values.numel()], 1)
        assert torch.equal(target, expected)


@over(torch.float32, torch.int32)
@pytest.mark.parametrize("wide", [False, True], ids=["idx32", "idx64"])
def test_index_put_accumulate(dtype: torch.dtype, wide: bool) -> None:
    target = random((6, 5), dtype)
    index = random((400,), torch.int64, 1, low=0, high=6)
    values = random((400, 5), dtype, 2)
    expected = target.double().index_put((index,), values.double(), accumulate=True)
    name = f"index_put_accumulate_32bit_{METAL_NAMES[dtype]}_idx{64 if wide else 32}"
    kernels("Indexing").run(name, index_bindings(target, [index], values, wide, False), values.numel())
    torch.testing.assert_close(target.double(), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("wide", [False, True], ids=["32", "64"])
def test_kernel_index_offsets(wide: bool) -> None:
    shape, strides = (3, 4, 5), [(1, 7, 2), (30, 1, 3), (100, 10, 1)]
    out = torch.zeros(60, 4, dtype=torch.int64 if wide else torch.int32)
    kernels("Indexing").run(
        f"kernel_index_offsets_{64 if wide else 32}",
        [numbers(*itertools.chain(*strides), dtype=torch.int32), out, numbers(*shape, dtype=torch.int32), 3],
        60,
    )
    for i in range(60):
        place = (i % 3, i // 3 % 4, i // 12)
        assert out[i, :3].tolist() == [sum(p * s[k] for p, s in zip(place, strides)) for k in range(3)]


@over(*FLOATS)
def test_naive_matmul(dtype: torch.dtype) -> None:
    a, b = random((13, 21), dtype), random((17, 21), dtype, 1).t()
    out = torch.empty(13, 17, dtype=dtype)
    strides = numbers(*a.stride(), *b.stride(), *out.stride())
    kernels("LinearAlgebra").run(
        f"naive_matmul_{METAL_NAMES[dtype]}", [a, b, out, strides, numbers(13, 21, 17, 0, dtype=torch.int32)], 13 * 17
    )
    # The kernel accumulates in the type itself.
    expected = torch.zeros_like(out)
    for k in range(21):
        expected = expected + a[:, k : k + 1] * b[k : k + 1]
    torch.testing.assert_close(out, expected, rtol=0 if dtype != torch.float32 else 1e-6, atol=0)
