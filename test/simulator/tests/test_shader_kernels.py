"""Every Metal kernel of PyTorch's MPS backend compiles, and gives through its operator what torch gives on the CPU.

Kernels that no operator reaches with tensors of this size run by themselves.
"""

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

FLOATS = [torch.float32, torch.float16, torch.bfloat16]
METAL_NAMES = dict(zip([*FLOATS, torch.int32], ["float", "half", "bfloat", "int"]))
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
COMPLEX = [torch.complex64, torch.complex32]
TOLERANCES = dict(zip([*FLOATS, *COMPLEX], [1e-4, 1e-2, 4e-2, 1e-4, 1e-2]))


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
    if dtype.is_floating_point or dtype.is_complex:
        wide = torch.complex64 if dtype.is_complex else torch.float32
        return torch.randn(shape, generator=generator, dtype=wide).to(dtype)
    low, high = {torch.bool: (0, 2), torch.uint8: (0, high)}.get(dtype, (low, high))
    return torch.randint(low, high, shape, generator=generator).to(dtype)


class Make:
    """Makes the inputs of a case, each with other values."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.count = 0

    def __call__(self, *shape: int, dtype: torch.dtype | None = None, low: int = -50, high: int = 50) -> torch.Tensor:
        self.count += 1
        return random(shape, dtype or self.dtype, self.count, low, high)

    def pair(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Two that lie differently in memory, each with something that is not a number."""
        a, b = self(7, 33), self(33, 7).t()
        a[0, 0] = b[0, 1] = float("nan")
        return a, b


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


# -- operators -------------------------------------------------------------------------------------------------------

Tensors = torch.Tensor | tuple[torch.Tensor, ...]


def bicubic(align: bool) -> Callable[..., Tensors]:
    """Resizing, and its gradient."""

    def resize(image: torch.Tensor, gradient: torch.Tensor) -> Tensors:
        image.requires_grad_()
        result = F.interpolate(image, (11, 13), mode="bicubic", align_corners=align)
        return result.detach(), *torch.autograd.grad(result, image, gradient)

    return resize


def product_with_bytes(a: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    return torch._weight_int8pack_mm(a, weight, scales) if a.is_mps else a @ weight.double().t() * scales


def product_with_half_bytes(
    group: int, a: torch.Tensor, weight: torch.Tensor, scales_and_zeros: torch.Tensor
) -> torch.Tensor:
    if a.is_mps:
        packed = torch._convert_weight_to_int4pack(weight[:, ::2] << 4 | weight[:, 1::2], 8)
        return torch._weight_int4pack_mm(a, packed, group, scales_and_zeros)
    scale, zero = (scales_and_zeros[..., i].t().repeat_interleave(group, 1) for i in (0, 1))
    return a @ ((weight.double() - 8) * scale + zero).t()


def cross_of_booleans(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.linalg.cross(a, b) if a.is_mps else torch.linalg.cross(a.int(), b.int()) != 0


def triangles(rows: int, columns: int, offset: int) -> Callable[[torch.Tensor], Tensors]:
    """The indices of both triangles, in the type and on the device of a tensor."""

    def indices(like: torch.Tensor) -> Tensors:
        makers = (torch.tril_indices, torch.triu_indices)
        return tuple(make(rows, columns, offset, dtype=like.dtype, device=like.device) for make in makers)

    return indices


# By name: the types, and what makes of them the operator and its inputs.
CASES: dict[str, tuple[list[torch.dtype], Callable[[Make], tuple[Any, ...]]]] = {
    "fmax": (FLOATS, lambda x: (torch.fmax, *x.pair())),
    "fmin": (FLOATS, lambda x: (torch.fmin, *x.pair())),
    "copysign": (FLOATS, lambda x: (torch.copysign, *x.pair())),
    "copysign of integers": ([*INTEGERS, torch.bool], lambda x: (torch.copysign, x(100), x(100))),
    "complex": (FLOATS[:2], lambda x: (torch.complex, x(64), x(64))),
    "polar": (FLOATS[:2], lambda x: (torch.polar, x(64), x(64))),
    "complex product": (COMPLEX, lambda x: (torch.mul, x(64), x(64))),
    "cross": ([*FLOATS, *INTEGERS], lambda x: (torch.linalg.cross, x(40, 3), x(3, 40).t())),
    "cross of booleans": ([torch.bool], lambda x: (cross_of_booleans, x(40, 3), x(3, 40).t())),
    "histogram by edges": (
        FLOATS[:1],
        lambda x: (lambda v, e, w: torch.histogram(v, e, weight=w).hist, x(60), torch.linspace(-2, 2, 9), x(60)),
    ),
    "histogramdd": (
        FLOATS[:1],
        lambda x: (lambda v: torch.histogramdd(v, [4, 8], range=[-2.0, 2.0, -1.0, 1.0]).hist, x(2, 60).t()),
    ),
    "histc": (FLOATS[:1], lambda x: (lambda v: torch.histc(v, 10, -2, 2), x(200))),
    "im2col": (
        [*FLOATS, *COMPLEX, torch.bool],
        lambda x: (lambda image: F.unfold(image, (3, 2), (2, 1), (1, 2), (2, 1)), x(2, 3, 9, 8)),
    ),
    **{
        f"product with bytes, {rows} rows": (
            FLOATS,
            lambda x, rows=rows: (product_with_bytes, x(rows, 96), x(96, 96, dtype=torch.int8), x(96) * 0.01),
        )
        for rows in (1, 5, 12, 40, 64)
    },
    **{
        f"product with half bytes, {rows} rows, groups of {group}": (
            FLOATS,
            lambda x, rows=rows, group=group: (
                functools.partial(product_with_half_bytes, group),
                x(rows, 512) * 0.1,
                x(32, 512, dtype=torch.uint8, high=16),
                x(512 // group, 32, 2) * 0.1,
            ),
        )
        for rows, group in itertools.product((1, 3), (32, 64, 128, 256))
    },
    "renorm": (FLOATS, lambda x: (lambda a: torch.renorm(a, 2, 0, 1.5), x(50, 3))),
    "repeat_interleave": (INTEGERS[:2], lambda x: (torch.repeat_interleave, x(20, low=0, high=5))),
    "i0": ([*FLOATS, torch.bool, *INTEGERS], lambda x: (torch.special.i0, x(200, low=-20, high=20))),
    "i1": ([*FLOATS, torch.bool, *INTEGERS], lambda x: (torch.special.i1, x(200, low=-20, high=20))),
    **{
        f"triangles {shape}": (INTEGERS[:2], lambda x, shape=shape: (triangles(*shape), x(1)))
        for shape in ((5, 5, 0), (40, 7, 2), (7, 40, 1), (30, 30, 5))
    },
    "unfold_backward": (
        FLOATS,
        lambda x: (lambda g: torch.ops.aten.unfold_backward(g, (4, 23), 1, 5, 3), x(4, 7, 5)),
    ),
    "bicubic": (FLOATS, lambda x: (bicubic(False), x(2, 3, 6, 5), x(2, 3, 11, 13))),
    "bicubic, aligned": (FLOATS, lambda x: (bicubic(True), x(2, 3, 6, 5), x(2, 3, 11, 13))),
    **{
        f"bitwise_{name}": (
            [*INTEGERS, torch.bool],
            lambda x, name=name: (
                lambda a, b: (getattr(torch, f"bitwise_{name}")(a, b), getattr(torch, f"bitwise_{name}")(a, b[5])),
                x(77),
                x(77),
            ),
        )
        for name in ("and", "or", "xor")
    },
    "bitwise_not": (INTEGERS, lambda x: (torch.bitwise_not, x(77))),
    "left shift": (INTEGERS, lambda x: (lambda a, b: (a << b, a << b[3]), x(77), x(77, low=0, high=7))),
    "right shift": (INTEGERS, lambda x: (lambda a, b: (a >> b, a >> b[3]), x(77), x(77, low=0, high=7))),
    **{
        name: (FLOATS, lambda x, function=function: (function, x(300).abs() * 5 + 0.1))
        for name, function in {
            "lgamma": torch.lgamma,
            "digamma": torch.digamma,
            "trigamma": functools.partial(torch.polygamma, 1),
            "polygamma": functools.partial(torch.polygamma, 2),
        }.items()
    },
    "exp": ([*FLOATS, *COMPLEX], lambda x: (torch.exp, x(250))),
    "tanh": ([*FLOATS, *COMPLEX], lambda x: (torch.tanh, x(250))),
    "erfinv": (FLOATS, lambda x: (torch.erfinv, torch.cat([x(250).clamp(-3, 3) / 3.5, x(3) / 0]))),
}


def exact(tensor: torch.Tensor) -> torch.Tensor:
    """The same values, with which the CPU computes without rounding to the type."""
    wide = torch.complex128 if tensor.is_complex() else torch.float64
    return tensor.to(wide if tensor.is_complex() or tensor.is_floating_point() else tensor.dtype)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, dtype) for name, (dtypes, _) in CASES.items() for dtype in dtypes],
    ids=lambda value: value if isinstance(value, str) else name_of(value),
)
def test_operator(name: str, dtype: torch.dtype) -> None:
    function, *inputs = CASES[name][1](Make(dtype))
    results, expected = function(*(tensor.to("mps") for tensor in inputs)), function(*map(exact, inputs))
    if isinstance(results, torch.Tensor):
        results, expected = (results,), (expected,)
    for result, wanted in zip(results, expected, strict=True):
        tolerance = TOLERANCES.get(result.dtype, 0.0)
        torch.testing.assert_close(
            result.cpu(), wanted.to(result.dtype), rtol=tolerance, atol=tolerance, equal_nan=True, check_stride=False
        )


@over(*FLOATS)
def test_nextafter(dtype: torch.dtype) -> None:
    a, b = random((300,), dtype), random((300,), dtype, 1)
    a[:5] = torch.tensor([0.0, 1.0, -0.0, float("nan"), float("inf")])
    b[:5] = torch.tensor([1.0, 1.0, -1.0, 1.0, 0.0])
    result = torch.nextafter(a.to("mps"), b.to("mps")).cpu()
    if dtype == torch.float16:
        # torch has none on the CPU: check the definition instead.
        moved = (a != b) & ~a.isnan()
        assert torch.equal((result > a)[moved], (b > a)[moved])
        assert (result.view(torch.int16).int() - a.view(torch.int16).int())[5:].abs().eq(1).all()
        return
    torch.testing.assert_close(result, torch.nextafter(a, b), rtol=0, atol=0, equal_nan=True)


@over(*FLOATS, *INTEGERS)
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("sorter", [False, True])
def test_searchsorted(dtype: torch.dtype, wide: bool, right: bool, sorter: bool) -> None:
    boundaries, values = random((3, 20), dtype, low=-20, high=20), random((3, 150), dtype, 1, low=-22, high=22)
    order = boundaries.float().argsort(1)
    inputs = (boundaries, values, order) if sorter else (boundaries.gather(1, order), values)
    results = []
    for device in ("cpu", "mps"):
        sequence, wanted, *orders = (tensor.to(device) for tensor in inputs)
        options = {"sorter": orders[0]} if orders else {}
        results.append(torch.searchsorted(sequence, wanted, out_int32=not wide, right=right, **options).cpu())
    assert torch.equal(*results)


def parameters_and_gradients(dtype: torch.dtype, device: str) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Tensors of more elements than a threadgroup takes, and of fewer; Adam divides by gradients, so none is near zero."""
    shapes = [(70000,), (3, 5), (1000,)]
    gradients = [random(shape, dtype, 10 + i) for i, shape in enumerate(shapes)]
    own = [random(shape, dtype, i).to(device) for i, shape in enumerate(shapes)]
    return own, [(gradient + gradient.sign() * 0.2).to(device) for gradient in gradients]


def optimized(kind: Any, dtype: torch.dtype, device: str, **options: Any) -> list[torch.Tensor]:
    """Parameters after two steps of an optimizer."""
    own, gradients = parameters_and_gradients(dtype, device)
    parameters = [torch.nn.Parameter(parameter) for parameter in own]
    optimizer = kind(parameters, lr=0.01, weight_decay=0.001, maximize=True, **options)
    for _ in range(2):
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = gradient.clone()
        optimizer.step()
    return [parameter.detach().cpu() for parameter in parameters]


def compare_parameters(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> None:
    tolerance = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 4e-2}[found[0].dtype]
    for mine, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance)


@over(*FLOATS)
@pytest.mark.parametrize("steps", FLOATS, ids=name_of)
@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
@pytest.mark.parametrize("amsgrad", [False, True])
def test_fused_adam(dtype: torch.dtype, steps: torch.dtype, kind: Any, amsgrad: bool) -> None:
    if torch.bfloat16 in (dtype, steps) and torch.float16 in (dtype, steps):
        pytest.skip("the backend has no kernel for half with bfloat")
    own, gradients = parameters_and_gradients(dtype, "mps")
    *moments, largest = ([torch.zeros_like(p) for p in own] for _ in range(3))
    counts = [torch.zeros((), dtype=steps, device="mps") for _ in own]
    # The optimizer itself takes no steps of another type.
    step = getattr(torch, f"_fused_{kind.__name__.lower()}_")
    numbers_of = {"lr": 0.01, "beta1": 0.9, "beta2": 0.999, "weight_decay": 0.001, "eps": 1e-3}
    for _ in range(2):
        for count in counts:
            count += 1
        step(own, gradients, *moments, largest if amsgrad else [], counts, **numbers_of, amsgrad=amsgrad, maximize=True)
    wanted = optimized(kind, dtype, "cpu", eps=1e-3, amsgrad=amsgrad, foreach=False)
    compare_parameters([parameter.cpu() for parameter in own], wanted)


@over(*FLOATS)
@pytest.mark.parametrize("options", [{}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}])
def test_fused_sgd(dtype: torch.dtype, options: dict[str, Any]) -> None:
    found = optimized(torch.optim.SGD, dtype, "mps", fused=True, **options)
    compare_parameters(found, optimized(torch.optim.SGD, dtype, "cpu", foreach=False, **options))


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
    """Copies from and to strided memory, with a conversion."""
    source, target = types
    shape = (3, 4, 2, 5, 3)[:rank]
    large = tuple(2 * size for size in shape)
    places = (slice(None, None, 2),) * rank
    strided = random(large, source)
    assert torch.equal(strided.to("mps")[places].to(target).cpu(), strided[places].to(target))
    dense, room = random(shape, source, 1), random(large, target)
    on_device = room.to("mps")
    on_device[places] = dense.to("mps")
    room[places] = dense.to(target)
    assert torch.equal(on_device.cpu(), room)


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
