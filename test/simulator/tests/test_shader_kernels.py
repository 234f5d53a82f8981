"""Every Metal kernel file of PyTorch's MPS backend, and every shader embedded in its sources, against torch on the CPU."""

from __future__ import annotations

import functools
import itertools
import os
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from shader_harness import REPOSITORY, Shader

BASE = Path(os.environ.get("MPS_SIMULATOR_PYTORCH", REPOSITORY / "build" / "pytorch")) / "aten" / "src" / "ATen"
KERNELS = BASE / "native" / "mps" / "kernels"

METAL_NAMES = {
    torch.float32: "float",
    torch.float16: "half",
    torch.bfloat16: "bfloat",
    torch.int64: "long",
    torch.int32: "int",
    torch.int16: "short",
    torch.int8: "char",
    torch.uint8: "uchar",
    torch.bool: "bool",
    torch.complex64: "float2",
    torch.complex32: "half2",
}
FLOATS = [torch.float32, torch.float16, torch.bfloat16]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]


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


@functools.cache
def embedded(path: str, delimiter: str, *parameters: str) -> Shader:
    """A shader written as a raw string in a source file, with its placeholders filled."""
    text = (BASE / path).read_text(encoding="utf-8")
    found = re.search(rf'R"{delimiter}\((.*?)\){delimiter}"', text, re.DOTALL)
    assert found, f"{path} has no {delimiter} string"
    return Shader(found.group(1).format(*parameters))


def numbers(*values: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """A small tensor to bind as a constant."""
    return torch.tensor(values, dtype=dtype)


def random(shape: Any, dtype: torch.dtype, seed: int = 0, low: int = -50, high: int = 50) -> torch.Tensor:
    """Reproducible values: normal for floating types, uniform for the others."""
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).to(dtype)
    if dtype.is_complex:
        return torch.view_as_complex(torch.randn(*shape, 2, generator=generator)).to(dtype)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.randint(0 if dtype == torch.uint8 else low, high, shape, generator=generator).to(dtype)


def offsets_of(*tensors: torch.Tensor) -> torch.Tensor:
    """Byte offsets of every element: rows of ``uint3``, which is as long as four."""
    columns = []
    for tensor in tensors:
        places = torch.zeros(tensor.shape, dtype=torch.int64)
        for dimension, (size, stride) in enumerate(zip(tensor.shape, tensor.stride())):
            shape = [1] * tensor.dim()
            shape[dimension] = size
            places += (torch.arange(size) * stride * tensor.element_size()).view(shape)
        columns.append(places.flatten())
    while len(columns) < 4:
        columns.append(torch.zeros_like(columns[0]))
    return torch.stack(columns, 1).to(torch.int32)


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


# -- BinaryKernel ----------------------------------------------------------------------------------------------------


def run_binary(name: str, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    kernels("BinaryKernel").run(name, [a, b, out, offsets_of(out, a, b)], a.numel())
    return out


@over(*FLOATS)
@pytest.mark.parametrize("operation", ["fmax", "fmin", "copysign"])
def test_binary(operation: str, dtype: torch.dtype) -> None:
    a, b = random((7, 33), dtype), random((7, 33), dtype, 1)
    a[0, 0] = float("nan")
    b[0, 1] = float("nan")
    transposed = b.t().contiguous().t()
    result = run_binary(f"{operation}_{METAL_NAMES[dtype]}", a, transposed, torch.empty_like(a))
    torch.testing.assert_close(result, getattr(torch, operation)(a, b), rtol=0, atol=0, equal_nan=True)


@over(*INTEGERS, torch.bool)
def test_copysign_of_integers(dtype: torch.dtype) -> None:
    a, b = random((100,), dtype), random((100,), dtype, 1)
    result = run_binary(f"copysign_{METAL_NAMES[dtype]}", a, b, torch.empty(100))
    torch.testing.assert_close(result, torch.copysign(a, b), rtol=0, atol=0)


@over(*FLOATS)
def test_nextafter(dtype: torch.dtype) -> None:
    a, b = random((300,), dtype), random((300,), dtype, 1)
    a[:5] = torch.tensor([0.0, 1.0, -0.0, float("nan"), float("inf")])
    b[:5] = torch.tensor([1.0, 1.0, -1.0, 1.0, 0.0])
    result = run_binary(f"nextafter_kernel_{METAL_NAMES[dtype]}", a, b, torch.empty_like(a))
    if dtype == torch.float16:
        # torch has none on the CPU: check the definition instead.
        moved = a != b
        assert bool(((result > a) == (b > a))[moved & ~a.isnan()].all())
        step = (result.view(torch.int16).int() - a.view(torch.int16).int()).abs()
        assert step[5:].eq(1).all()
        return
    torch.testing.assert_close(result, torch.nextafter(a, b), rtol=0, atol=0, equal_nan=True)


@over(torch.float32, torch.float16)
def test_complex_kernels(dtype: torch.dtype) -> None:
    a, b = random((64,), dtype), random((64,), dtype, 1)
    pairs = torch.empty(64, 2, dtype=dtype)
    rows = offsets_of(pairs.select(1, 0), a, b)
    shader = kernels("BinaryKernel")
    shader.run(f"complex_kernel_{METAL_NAMES[dtype]}", [a, b, pairs, rows], 64)
    assert torch.equal(pairs, torch.stack([a, b], 1))
    shader.run(f"polar_{METAL_NAMES[dtype]}", [a, b, pairs, rows], 64)
    expected = torch.stack([a * b.cos(), a * b.sin()], 1)
    torch.testing.assert_close(pairs, expected)
    x, y = random((64, 2), dtype, 2), random((64, 2), dtype, 3)
    rows = offsets_of(pairs.select(1, 0), x.select(1, 0), y.select(1, 0))
    shader.run(f"complex_mul_{METAL_NAMES[dtype]}", [x, y, pairs, rows], 64)
    product = torch.view_as_real(torch.view_as_complex(x.float()) * torch.view_as_complex(y.float()))
    torch.testing.assert_close(pairs.float(), product, rtol=2e-3 if dtype == torch.float16 else 1e-5, atol=4e-3)


# -- Bucketization ---------------------------------------------------------------------------------------------------


@over(*FLOATS, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
@pytest.mark.parametrize("result", [torch.int32, torch.int64], ids=name_of)
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("sorter", [False, True])
def test_searchsorted(dtype: torch.dtype, result: torch.dtype, right: bool, sorter: bool) -> None:
    boundaries = random((3, 20), dtype, low=-20, high=20)
    order = boundaries.float().argsort(1)
    if not sorter:
        boundaries = boundaries.gather(1, order)
    values = random((3, 150), dtype, 1, low=-22, high=22)
    out = torch.empty(values.shape, dtype=result)
    sizes = [numbers(150), numbers(20), numbers(values.numel()), numbers(int(right)), numbers(0)]
    bindings = [values, boundaries, out, *sizes] + ([order] if sorter else [])
    name = f"searchsorted_{METAL_NAMES[dtype]}_{METAL_NAMES[result]}" + ("_sorter" if sorter else "")
    kernels("Bucketization").run(name, bindings, (64 * 4, 1), (64, 1))
    expected = torch.searchsorted(
        boundaries, values, out_int32=result == torch.int32, right=right, sorter=order if sorter else None
    )
    assert torch.equal(out, expected)


# -- CrossKernel -----------------------------------------------------------------------------------------------------


@over(*FLOATS, *INTEGERS, torch.bool)
def test_cross(dtype: torch.dtype) -> None:
    a, b = random((40, 3), dtype, low=-8, high=9), random((3, 40), dtype, 1, low=-8, high=9).t()
    out = torch.empty(40, 3, dtype=dtype)
    rows = offsets_of(out.select(1, 0), a.select(1, 0), b.select(1, 0))
    strides = [numbers(tensor.stride(1)) for tensor in (out, a, b)]
    kernels("CrossKernel").run(f"cross_{METAL_NAMES[dtype]}", [a, b, out, rows, *strides], 40)
    if dtype == torch.bool:
        wide = torch.linalg.cross(a.int(), b.int())
        assert torch.equal(out, wide != 0)
    elif dtype.is_floating_point:
        torch.testing.assert_close(
            out, torch.linalg.cross(a, b), rtol=2e-2 if dtype == torch.bfloat16 else 2e-3, atol=2e-2
        )
    else:
        assert torch.equal(out, torch.linalg.cross(a.contiguous(), b.contiguous()))


# -- FusedOptimizerOps -----------------------------------------------------------------------------------------------


def run_optimizer(
    name: str, lists: list[list[torch.Tensor]], state_steps: list[torch.Tensor], scalars: list[float | bool]
) -> None:
    """As the backend does: 32 slots a list in an argument buffer, then sizes, threadgroups and chunks."""
    shader = kernels("FusedOptimizerOps")
    length = shader.arguments(name)[0].structure_length
    slots = 32
    all_lists = lists + ([state_steps] if state_steps else [])
    assert length == slots * 8 * len(all_lists)
    memory = bytearray(length)
    for number, tensors in enumerate(all_lists):
        for place, tensor in enumerate(tensors):
            offset = shader.offset(name, 0, number * slots + place)
            assert offset == (number * slots + place) * 8
            struct.pack_into("<Q", memory, offset, tensor.data_ptr())
    assert shader.offset(name, 0, slots * len(all_lists)) == -1
    chunk = 65536
    work = [(i, c) for i, t in enumerate(lists[0]) for c in range((t.numel() + chunk - 1) // chunk)]
    metadata = [0] * 96
    for i, tensor in enumerate(lists[0]):
        metadata[i] = tensor.numel()
    for place, (tensor_number, chunk_number) in enumerate(work):
        metadata[32 + place] = tensor_number
        metadata[64 + place] = chunk_number
    constants = [bytes([value]) if isinstance(value, bool) else struct.pack("<f", value) for value in scalars]
    shader.run(name, [bytes(memory), struct.pack("<96I", *metadata), *constants], len(work) * 256, 256)


def parameters_and_gradients(dtype: torch.dtype) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    shapes = [(70000,), (3, 5), (1000,)]
    return [random(s, dtype, i) for i, s in enumerate(shapes)], [random(s, dtype, 10 + i) for i, s in enumerate(shapes)]


@over(*FLOATS)
@pytest.mark.parametrize("steps", FLOATS, ids=name_of)
@pytest.mark.parametrize("decoupled", [False, True], ids=["adam", "adamw"])
@pytest.mark.parametrize("amsgrad", [False, True], ids=["plain", "amsgrad"])
def test_fused_adam(dtype: torch.dtype, steps: torch.dtype, decoupled: bool, amsgrad: bool) -> None:
    if torch.bfloat16 in (dtype, steps) and torch.float16 in (dtype, steps):
        pytest.skip("the backend has no kernel for half with bfloat")
    own, gradients = parameters_and_gradients(dtype)
    # Adam divides by the size of the gradient: none near zero, where rounding decides.
    gradients = [g + g.sign() * 0.2 for g in gradients]
    reference = [torch.nn.Parameter(p.clone()) for p in own]
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    optimizer = kind(reference, lr=0.01, weight_decay=0.001, eps=1e-3, amsgrad=amsgrad, maximize=True, foreach=False)
    moments = [[torch.zeros_like(p) for p in own] for _ in range(3 if amsgrad else 2)]
    state_steps = [torch.zeros(1, dtype=steps) for _ in own]
    name = (
        f"fused_adam{'w' if decoupled else ''}{'_amsgrad' if amsgrad else ''}_{METAL_NAMES[dtype]}_{METAL_NAMES[steps]}"
    )
    for _ in range(2):
        for parameter, gradient, count in zip(reference, gradients, state_steps):
            parameter.grad = gradient.clone()
            count += 1
        optimizer.step()
        run_optimizer(
            name, [own, [g.clone() for g in gradients], *moments], state_steps, [0.01, 0.9, 0.999, 0.001, 1e-3, True]
        )
    tolerance = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 4e-2}[dtype]
    for mine, theirs in zip(own, reference):
        torch.testing.assert_close(mine, theirs.data, rtol=tolerance, atol=tolerance)


@over(*FLOATS)
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("nesterov", [False, True])
def test_fused_sgd(dtype: torch.dtype, momentum: float, nesterov: bool) -> None:
    if nesterov and not momentum:
        pytest.skip("Nesterov needs a momentum")
    own, gradients = parameters_and_gradients(dtype)
    reference = [torch.nn.Parameter(p.clone()) for p in own]
    optimizer = torch.optim.SGD(
        reference, lr=0.1, momentum=momentum, weight_decay=0.01, nesterov=nesterov, maximize=True, foreach=False
    )
    buffers = [torch.zeros_like(p) for p in own]
    for step in range(2):
        for parameter, gradient in zip(reference, gradients):
            parameter.grad = gradient.clone()
        optimizer.step()
        if momentum:
            scalars: list[float | bool] = [0.01, momentum, 0.1, 0.0, nesterov, True, step == 0]
            run_optimizer(f"fused_sgd_momentum_{METAL_NAMES[dtype]}", [own, gradients, buffers], [], scalars)
        else:
            run_optimizer(f"fused_sgd_{METAL_NAMES[dtype]}", [own, gradients], [], [0.01, 0.1, True])
    tolerance = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 4e-2}[dtype]
    for mine, theirs in zip(own, reference):
        torch.testing.assert_close(mine, theirs.data, rtol=tolerance, atol=tolerance)


# -- HistogramKernel -------------------------------------------------------------------------------------------------


@over(torch.float32, torch.float16)
@pytest.mark.parametrize("algorithm", [0, 1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_histogramdd(dtype: torch.dtype, algorithm: int, weighted: bool) -> None:
    shader = kernels("HistogramKernel")
    count, bins = 60, (4, 8)
    values = torch.rand(2, count, generator=torch.Generator().manual_seed(3)).to(dtype).t()
    offsets = torch.empty(count * 2, dtype=torch.int32)
    shader.run(
        "kernel_index_offset",
        [numbers(*values.stride(), dtype=torch.int32), offsets, numbers(count, 2, dtype=torch.int32), 2],
        count * 2,
    )
    places = [i * values.stride(0) + j * values.stride(1) for i in range(count) for j in range(2)]
    assert offsets.tolist() == places
    edges = [torch.linspace(0, 1, n + 1).to(dtype) for n in bins]
    weight = torch.rand(count, generator=torch.Generator().manual_seed(4)).to(dtype)
    local = torch.zeros(count, *bins, dtype=dtype)
    shader.run(
        f"histogramdd_{METAL_NAMES[dtype]}",
        [
            values,
            weight,
            local,
            offsets,
            numbers(2),
            torch.cat(edges),
            numbers(*(n + 1 for n in bins)),
            torch.stack([e[0] for e in edges]),
            torch.stack([e[-1] for e in edges]),
            numbers(*local.stride()),
            bytes([algorithm]),
            bytes([weighted]),
        ],
        count,
    )
    expected = torch.histogramdd(
        values.float(), [e.float() for e in edges], weight=weight.float() if weighted else None
    ).hist
    torch.testing.assert_close(local.float().sum(0), expected, rtol=1e-3, atol=1e-3)


# -- Im2Col ----------------------------------------------------------------------------------------------------------


@over(*FLOATS, torch.bool, torch.complex64, torch.complex32)
def test_im2col(dtype: torch.dtype) -> None:
    batch, channels, height, width = 2, 3, 9, 8
    kernel, dilation, padding, stride = (3, 2), (2, 1), (1, 2), (2, 1)
    image = random((batch, channels, height, width), dtype)
    out_height = (height + 2 * padding[0] - dilation[0] * (kernel[0] - 1) - 1) // stride[0] + 1
    out_width = (width + 2 * padding[1] - dilation[1] * (kernel[1] - 1) - 1) // stride[1] + 1
    columns = channels * kernel[0] * kernel[1]
    out = torch.empty(batch, columns, out_height * out_width, dtype=dtype)
    kernels("Im2Col").run(
        f"im2col_{METAL_NAMES[dtype]}",
        [
            image,
            out,
            numbers(kernel[1], kernel[0], dilation[1], dilation[0], dtype=torch.int32),
            numbers(padding[1], padding[0], stride[1], stride[0], dtype=torch.int32),
            numbers(image.stride(3), image.stride(2), image.stride(1), image.stride(0)),
            numbers(out.stride(2), out.stride(1), out.stride(0), out_width),
            numbers(width, height, channels, batch),
        ],
        (out_height * out_width, channels, batch),
        (64, 1, 1),
    )

    def unfold(real: torch.Tensor) -> torch.Tensor:
        return F.unfold(real.float(), kernel, dilation, padding, stride)

    if dtype.is_complex:
        assert torch.equal(torch.view_as_real(out)[..., 0].float(), unfold(torch.view_as_real(image)[..., 0]))
        assert torch.equal(torch.view_as_real(out)[..., 1].float(), unfold(torch.view_as_real(image)[..., 1]))
    else:
        assert torch.equal(out.float(), unfold(image))


# -- Indexing --------------------------------------------------------------------------------------------------------

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


# -- LinearAlgebra ---------------------------------------------------------------------------------------------------


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


# -- Quantized -------------------------------------------------------------------------------------------------------


def test_weight_to_int4pack() -> None:
    rows, columns = 8, 16
    weight = random((rows, columns), torch.int32, low=-(2**31), high=2**31 - 1)
    packed = torch.empty(rows, columns * 4, dtype=torch.uint8)
    kernels("Quantized").run(
        "weight_to_int4pack", [weight, packed, numbers(rows, columns, dtype=torch.int32)], (rows, columns), (64, 1)
    )
    given = weight.view(torch.uint8).view(rows, columns * 4)
    assert torch.equal(packed, (given << 4) | (given >> 4))


@over(*FLOATS)
@pytest.mark.parametrize("group", [32, 64, 128, 256])
@pytest.mark.parametrize("rows", [1, 3])
def test_int4pack_mm(dtype: torch.dtype, group: int, rows: int) -> None:
    inner, columns = 512, 32
    a = random((rows, inner), dtype)
    weight = random((columns, inner), torch.uint8, 1, high=16)
    packed = (weight[:, ::2] | weight[:, 1::2] << 4).contiguous()
    scales = random((inner // group, columns, 2), dtype, 2) * 0.1
    out = torch.empty(rows, columns, dtype=dtype)
    kernels("Quantized").run(
        f"int4pack_mm_{group}_{METAL_NAMES[dtype]}",
        [a, packed, scales, out, numbers(rows, inner, columns, 0, dtype=torch.int32)],
        (columns // 4 * 32, 1, rows),
        (64, 1, 1),
    )
    scale = scales[..., 0].double().t().repeat_interleave(group, 1)
    zero = scales[..., 1].double().t().repeat_interleave(group, 1)
    expected = a.double() @ ((weight.double() - 8) * scale + zero).t()
    tolerance = {torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 0.25}[dtype]
    torch.testing.assert_close(out.double(), expected, rtol=tolerance, atol=tolerance)


@over(*FLOATS)
@pytest.mark.parametrize("rows", [1, 5, 12, 40, 64])
def test_int8pack_mm(dtype: torch.dtype, rows: int) -> None:
    inner, columns = 96, 96
    a = random((rows, inner), dtype)
    weight = random((columns, inner), torch.int8, 1, low=-128, high=128)
    scales = random((columns,), dtype, 2).abs() * 0.01
    out = torch.empty(rows, columns, dtype=dtype)
    sizes = numbers(rows, inner, columns, 0, dtype=torch.int32)
    bindings = [a, weight, scales, out, sizes]
    shader = kernels("Quantized")
    if rows < 12:
        grid = ((columns + 7) // 8 * 64, rows, 1)
        shader.run(f"int8pack_mv_{METAL_NAMES[dtype]}", bindings, grid, (64, 1, 1), [32])
    else:
        grid = ((rows + 31) // 32 * 128, (columns + 63) // 64, 1)
        shader.run(f"large_m_int8pack_mm_{METAL_NAMES[dtype]}", bindings, grid, (128, 1, 1), [12288])
    expected = a.double() @ weight.double().t() * scales.double()
    tolerance = {torch.float32: 1e-4, torch.float16: 5e-3, torch.bfloat16: 4e-2}[dtype]
    torch.testing.assert_close(out.double(), expected, rtol=tolerance, atol=tolerance)


# -- RenormKernel, Repeat, SpecialOps --------------------------------------------------------------------------------


@over(*FLOATS)
def test_renorm(dtype: torch.dtype) -> None:
    norm = random((50,), dtype).abs() * 3
    factor = torch.empty_like(norm)
    kernels("RenormKernel").run(f"renorm_{METAL_NAMES[dtype]}", [norm, factor, 1.5], 50)
    small = torch.tensor(1e-7).to(dtype)
    scaled = torch.full((), 1.5) / (norm + small).float()
    expected = torch.where(norm.float() > 1.5, scaled.to(dtype), torch.ones((), dtype=dtype))
    assert torch.equal(factor, expected)


@over(torch.int32, torch.int64)
def test_repeat_interleave(dtype: torch.dtype) -> None:
    repeats = random((20,), dtype, low=0, high=5)
    sums = repeats.cumsum(0)
    out = torch.empty(int(sums[-1]), dtype=dtype)
    kernels("Repeat").run(f"repeat_interleave_{name_of(dtype)}_t", [repeats, sums, out], 20)
    assert torch.equal(out, torch.repeat_interleave(repeats).to(dtype))


@over(torch.float32, torch.bool, *INTEGERS, torch.float16, torch.bfloat16)
@pytest.mark.parametrize("order", [0, 1])
def test_bessel(dtype: torch.dtype, order: int) -> None:
    values = random((200,), dtype, low=-20, high=20)
    if dtype.is_floating_point:
        values = values * 4
    result = dtype if dtype.is_floating_point else torch.float32
    out = torch.empty(200, dtype=result)
    kernels("SpecialOps").run(f"i{order}_{METAL_NAMES[dtype]}_{METAL_NAMES[result]}", [values, out], 200)
    function = torch.special.i1 if order else torch.special.i0
    tolerance = {torch.float32: 5e-6, torch.float16: 4e-3, torch.bfloat16: 3e-2}[result]
    torch.testing.assert_close(out, function(values.double()).to(result), rtol=tolerance, atol=tolerance)


# -- TriangularOps, UnfoldBackward -----------------------------------------------------------------------------------


@over(torch.int32, torch.int64)
@pytest.mark.parametrize("shape", [(5, 5, 0), (40, 7, 2), (7, 40, 1), (30, 30, 5)])
def test_triangle_indices(dtype: torch.dtype, shape: tuple[int, int, int]) -> None:
    rows, columns, offset = shape
    shader = kernels("TriangularOps")
    # tril: a trapezoid on top whose rows grow to the full width, full rows below.
    first = min(columns, 1 + offset)
    growing = min(rows, columns - first + 1)
    top = (first + first + growing - 1) * growing // 2
    size = top + max(rows - growing, 0) * columns
    out = torch.empty(2, size, dtype=dtype)
    scalars = [numbers(value) for value in (0, first, columns, top, size)]
    shader.run(f"tril_indices_{METAL_NAMES[dtype]}", [out, *scalars], size)
    assert torch.equal(out, torch.tril_indices(rows, columns, offset, dtype=dtype))
    # triu: no full rows on top here, since the diagonal does not lie below the first row.
    length = columns - offset
    shrinking = min(rows, length)
    size = (length + length - shrinking + 1) * shrinking // 2
    out = torch.empty(2, size, dtype=dtype)
    scalars = [numbers(value) for value in (offset, length, columns, 0, size)]
    shader.run(f"triu_indices_{METAL_NAMES[dtype]}", [out, *scalars], size)
    assert torch.equal(out, torch.triu_indices(rows, columns, offset, dtype=dtype))


@over(*FLOATS)
def test_unfold_backward(dtype: torch.dtype) -> None:
    shape, dimension, size, step = (4, 23), 1, 5, 3
    reference = torch.zeros(shape, dtype=torch.float64, requires_grad=True)
    unfolded = reference.unfold(dimension, size, step)
    gradient = random(tuple(unfolded.shape), dtype)
    torch.autograd.backward(unfolded, gradient.double())
    out = torch.empty(shape, dtype=dtype)
    kernels("UnfoldBackward").run(
        f"unfold_backward_{METAL_NAMES[dtype]}",
        [
            gradient,
            out,
            numbers(*gradient.stride()),
            numbers(*shape),
            numbers(*out.stride()),
            numbers(dimension, size, step, 2, dtype=torch.int32),
        ],
        out.numel(),
    )
    assert reference.grad is not None
    torch.testing.assert_close(out, reference.grad.to(dtype))


# -- UpSample --------------------------------------------------------------------------------------------------------


@over(*FLOATS)
@pytest.mark.parametrize("align_corners", [False, True])
def test_upsample_bicubic(dtype: torch.dtype, align_corners: bool) -> None:
    image = random((2, 3, 6, 5), dtype)
    height, width = 11, 13
    reference = image.double().requires_grad_()
    expected = F.interpolate(reference, (height, width), mode="bicubic", align_corners=align_corners)
    if align_corners:
        scales = torch.tensor([4 / (width - 1), 5 / (height - 1)])
    else:
        scales = torch.tensor([5 / width, 6 / height])

    def sizes(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return numbers(*reversed(tensor.stride())), numbers(*reversed(tensor.shape))

    out = torch.empty(2, 3, height, width, dtype=dtype)
    in_strides, in_sizes = sizes(image)
    out_strides, out_sizes = sizes(out)
    constants: list[Any] = [in_strides, out_strides, in_sizes, out_sizes, scales, bytes([align_corners])]
    shader = kernels("UpSample")
    shader.run(f"upsample_bicubic2d_{METAL_NAMES[dtype]}", [image, out, *constants], height * width)
    tolerance = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 4e-2}[dtype]
    torch.testing.assert_close(out, expected.detach().to(dtype), rtol=tolerance, atol=tolerance)

    gradient = random(tuple(out.shape), dtype, 1)
    torch.autograd.backward(expected, gradient.double())
    assert reference.grad is not None
    back = torch.zeros_like(image)
    shader.run(f"upsample_bicubic2d_backward_{METAL_NAMES[dtype]}", [back, gradient, *constants], height * width)
    rounding = {torch.float32: 1e-5, torch.float16: 2e-2, torch.bfloat16: 0.15}[dtype]
    torch.testing.assert_close(back, reference.grad.to(dtype), rtol=rounding, atol=rounding)


# -- shaders embedded in sources -------------------------------------------------------------------------------------


@over(*INTEGERS, torch.bool)
def test_bitwise(dtype: torch.dtype) -> None:
    metal = METAL_NAMES[dtype]
    shader = embedded("native/mps/operations/BitwiseOps.mm", "METAL", metal, metal, metal)
    a, b = random((77,), dtype), random((77,), dtype, 1)
    out = torch.empty_like(a)
    operations: dict[str, Callable[..., torch.Tensor]] = {
        "and": torch.bitwise_and,
        "or": torch.bitwise_or,
        "xor": torch.bitwise_xor,
    }
    for name, operation in operations.items():
        shader.run(f"bitwise_{name}_tensor", [77, out, a, b], 128)
        assert torch.equal(out, operation(a, b))
        shader.run(f"bitwise_{name}_scalar", [77, out, a, b[5:6]], 128)
        assert torch.equal(out, operation(a, b[5]))
    if dtype == torch.bool:
        return
    shader.run("bitwise_not", [77, out, a], 77)
    assert torch.equal(out, torch.bitwise_not(a))
    shifts = random((77,), dtype, 2, low=0, high=7).clamp(0, 6)
    for name, operation in {"lshift": torch.bitwise_left_shift, "rshift": torch.bitwise_right_shift}.items():
        shader.run(f"bitwise_{name}_tensor", [77, out, a, shifts], 77)
        assert torch.equal(out, operation(a, shifts))
        shader.run(f"bitwise_{name}_scalar", [77, out, a, shifts[3:4]], 77)
        assert torch.equal(out, operation(a, shifts[3]))


@over(*FLOATS)
def test_gamma(dtype: torch.dtype) -> None:
    shader = embedded("native/mps/operations/Gamma.mm", "METAL", METAL_NAMES[dtype], METAL_NAMES[dtype])
    values = random((300,), dtype).abs() * 5 + 0.1
    out = torch.empty_like(values)
    tolerance = {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]
    functions: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "lgamma": torch.lgamma,
        "digamma": torch.digamma,
        "trigamma": functools.partial(torch.polygamma, 1),
    }
    for name, function in functions.items():
        shader.run(name, [values, out], 300)
        torch.testing.assert_close(out, function(values.double()).to(dtype), rtol=tolerance, atol=tolerance)
    shader.run("polygamma", [values, out, numbers(2)], 300)
    torch.testing.assert_close(
        out, torch.polygamma(2, values.double()).to(dtype), rtol=10 * tolerance, atol=tolerance, check_stride=False
    )


@over(*FLOATS)
def test_unary(dtype: torch.dtype) -> None:
    metal = METAL_NAMES[dtype]
    shader = embedded("native/mps/UnaryConstants.h", "METAL", metal, metal)
    values = random((500,), dtype).clamp(-3, 3)
    out = torch.empty_like(values)
    tolerance = {torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]
    for name in ("exp", "tanh"):
        shader.run(f"{name}_kernel", [out, values], 500)
        torch.testing.assert_close(out, getattr(torch, name)(values.double()).to(dtype), rtol=tolerance, atol=tolerance)
    inside = (values / 3.5).contiguous()
    inside[:3] = torch.tensor([1.0, -1.0, 2.0])
    shader.run("erfinv_kernel", [out, inside], 500)
    expected = torch.erfinv(inside.double()).to(dtype)
    torch.testing.assert_close(out, expected, rtol=2e-2, atol=2e-2, equal_nan=True)
    pairs, result = random((250, 2), dtype, 1), torch.empty(250, 2, dtype=dtype)
    whole = torch.view_as_complex(pairs.double())
    for name in ("exp", "tanh"):
        shader.run(f"{name}_complex_kernel", [result, pairs], 250)
        expected = torch.view_as_real(getattr(torch, name)(whole))
        loose = {torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 0.15}[dtype]
        torch.testing.assert_close(result.double(), expected, rtol=loose, atol=loose)


def conversion(source: str, target: str) -> str:
    """The expression by which the backend converts between two Metal types."""
    if target.endswith("2"):
        if source == "bfloat":
            return f"{target}(float(x), 0.0)"
        return target + ("(x.x, x.y)" if source.endswith("2") else "(x,  0.0)")
    if source.endswith("2"):
        return "bfloat(x.x)" if target == "bfloat" else "x.x"
    if target == "bfloat":
        return "bfloat(x)"
    return f"{target}(x)" if source == "bfloat" else "(x)"


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    "types",
    [
        (torch.float32, torch.float32),
        (torch.float32, torch.float16),
        (torch.bfloat16, torch.float32),
        (torch.int32, torch.bfloat16),
        (torch.bool, torch.int64),
        (torch.float32, torch.complex64),
        (torch.complex64, torch.complex64),
        (torch.bfloat16, torch.complex64),
    ],
    ids=lambda pair: "-".join(map(name_of, pair)),
)
def test_gather_and_scatter(rank: int, types: tuple[torch.dtype, torch.dtype]) -> None:
    source_type, target_type = types
    names = METAL_NAMES[source_type], METAL_NAMES[target_type]
    parameters = (*names, conversion(*names))
    suffix = str(rank) if rank < 5 else "n"
    shape = (3, 4, 2, 5, 3)[:rank]
    strided = random(tuple(2 * size for size in shape), source_type)[tuple(slice(None, None, 2) for _ in shape)]
    count = strided.numel()

    def constants(tensor: torch.Tensor) -> list[Any]:
        return [
            numbers(*tensor.shape, dtype=torch.int32),
            numbers(*tensor.stride(), dtype=torch.int32),
            count,
            *([rank] if rank > 4 else []),
        ]

    out = torch.empty(shape, dtype=target_type)
    gather = embedded("mps/IndexKernels.h", "METAL_GATHER", *parameters)
    gather.run(f"gather_kernel_{suffix}", [strided, out, *constants(strided)], count)
    assert torch.equal(out, strided.to(target_type))

    dense = random(shape, source_type, 1)
    room = random(tuple(2 * size for size in shape), target_type)
    expected = room.clone()
    places = tuple(slice(None, None, 2) for _ in shape)
    expected[places] = dense.to(target_type)
    scatter = embedded("mps/IndexKernels.h", "METAL_SCATTER", *parameters)
    target = room[places]
    scatter.run(f"scatter_kernel_{suffix}", [dense, target, *constants(target)], count)
    assert torch.equal(room, expected)
