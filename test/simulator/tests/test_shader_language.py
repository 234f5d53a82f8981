"""The Metal Shading Language as the simulator's shader compiler and kernel runtime understand it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from shader_harness import Shader, ShaderError, standalone_library

PRELUDE = "#include <metal_stdlib>\nusing namespace metal;\n"


def shader(body: str, **options: Any) -> Shader:
    """A library with the usual first two lines."""
    return Shader(PRELUDE + body, **options)


def error_of(source: str, **options: Any) -> str:
    """The message with which a source is refused."""
    with pytest.raises(ShaderError) as caught:
        Shader(source, **options)
    return str(caught.value)


KINDS = {
    torch.float32: "float", torch.int32: "int", torch.float16: "half", torch.int64: "long", torch.int8: "char",
    torch.uint8: "uchar", torch.int16: "short", torch.bool: "bool",
}  # fmt: skip


def evaluate(
    expressions: list[str], inputs: list[torch.Tensor], result: torch.dtype = torch.float32, types: str = ""
) -> torch.Tensor:
    """Evaluates expressions of a, b, … for every element: one row for every expression."""
    parameters = "".join(f"device {KINDS[x.dtype]}* p{i}, " for i, x in enumerate(inputs))
    loads = "".join(f"auto {'abcdef'[i]} = p{i}[i]; " for i in range(len(inputs)))
    stores = " ".join(f"out[{n} * count + i] = {expression};" for n, expression in enumerate(expressions))
    out = torch.empty(len(expressions), inputs[0].numel(), dtype=result)
    library = shader(
        f"{types}\nkernel void f({parameters}device {KINDS[result]}* out, constant uint& count, "
        f"uint i [[thread_position_in_grid]]) {{ {loads}{stores} }}"
    )
    library.run("f", [*inputs, out, inputs[0].numel()], inputs[0].numel())
    return out


def each(
    expression: str, inputs: list[torch.Tensor], result: torch.dtype = torch.float32, types: str = ""
) -> torch.Tensor:
    """Evaluates one expression for every element."""
    return evaluate([expression], inputs, result, types)[0]


# -- which functions there are ---------------------------------------------------------------------------------------


def test_names() -> None:
    library = shader(
        """
        kernel void plain(device float* x) { x[0] = 1; }
        [[kernel]] void attributed(device float* x) { x[0] = 2; }
        [[host_name("renamed")]] kernel void original(device float* x) { x[0] = 3; }
        template <typename T> kernel void generic(device T* x) { x[0] = 4; }
        template <typename T> kernel void never(device T* x) { x[0] = 4; }
        template [[host_name("generic_" "float")]] kernel void generic<float>(device float* x);
        template [[host_name("generic_half")]] [[kernel]] decltype(generic<half>) generic<half>;
        namespace inner { kernel void nested(device float* x) { x[0] = 5; } }
        float helper(float x) { return x; }
        """
    )
    assert library.names == ["plain", "attributed", "renamed", "generic_float", "generic_half", "nested"]
    for number, name in enumerate(["plain", "attributed", "renamed", "generic_float"], 1):
        x = torch.zeros(1)
        library.run(name, [x], 1)
        assert x.item() == number
    x = torch.zeros(1, dtype=torch.half)
    library.run("generic_half", [x], 1)
    assert x.item() == 4


def test_empty_library_and_missing_kernel() -> None:
    assert Shader("// nothing").names == []
    with pytest.raises(ShaderError, match="no kernel named 'absent'"):
        Shader("").run("absent", [], 1)


def test_overloaded_templates_are_told_apart() -> None:
    library = shader(
        """
        template <typename T> kernel void f(device T* x, constant int& a) { x[0] = a; }
        template <typename T> kernel void f(device T* x, constant int& a, constant int& b) { x[0] = a + b; }
        template [[host_name("one")]] kernel void f<float>(device float*, constant int&);
        template [[host_name("two")]] kernel void f<float>(device float*, constant int&, constant int&);
        """
    )
    x = torch.zeros(1)
    library.run("one", [x, 3], 1)
    assert x.item() == 3
    library.run("two", [x, 3, 4], 1)
    assert x.item() == 7


# -- arguments -------------------------------------------------------------------------------------------------------


def test_reflection() -> None:
    library = shader(
        """
        struct Pair { float a; float2 b; };
        kernel void f(device float* late [[buffer(1)]], constant Pair& pair, const device int* third,
                      threadgroup float* scratch [[threadgroup(2)]], threadgroup int* more,
                      device void* raw [[buffer(7)]], device atomic_uint& counter,
                      uint i [[thread_position_in_grid]]) {}
        """
    )
    found = [(a.name, a.index, a.threadgroup, a.writable, a.minimum_length) for a in library.arguments("f")]
    assert found == [
        ("late", 1, False, True, 4),
        ("pair", 0, False, False, 16),
        ("third", 2, False, False, 4),
        ("scratch", 2, True, True, 4),
        ("more", 0, True, True, 4),
        ("raw", 7, False, True, 0),
        ("counter", 3, False, True, 4),
    ]
    assert library.limits("f") == (1024, 32, 0)


def test_argument_buffer_identifiers() -> None:
    library = shader(
        """
        constant constexpr uint start = 3;
        struct Arguments {
          array<device float*, 3> tensors [[id(0)]];
          device int* last [[id(start + 4)]];
          constant float& factor [[id(9)]];
        };
        kernel void f(device Arguments& arguments, uint i [[thread_position_in_grid]]) {
          arguments.tensors[2][i] = arguments.factor * arguments.last[i];
        }
        """
    )
    offsets = [library.offset("f", 0, identifier) for identifier in (0, 1, 2, 3, 7, 9)]
    assert offsets == [0, 8, 16, -1, 24, 32]
    numbers, result, factor = torch.arange(5, dtype=torch.int32), torch.zeros(5), torch.tensor([2.5])
    memory = bytearray(40)
    for place, tensor in ((16, result), (24, numbers), (32, factor)):
        memory[place : place + 8] = tensor.data_ptr().to_bytes(8, "little")
    library.run("f", [bytes(memory)], 5)
    assert result.tolist() == [0, 2.5, 5, 7.5, 10]


def test_built_in_inputs_at_the_edge_of_the_grid() -> None:
    library = shader(
        """
        kernel void f(device uint* out,
                      uint2 grid [[threads_per_grid]], uint2 position [[thread_position_in_grid]],
                      ushort2 local [[thread_position_in_threadgroup]], uint2 size [[threads_per_threadgroup]],
                      uint2 group [[threadgroup_position_in_grid]], ushort index [[thread_index_in_threadgroup]],
                      uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]]) {
          device uint* o = out + (position.y * grid.x + position.x) * 9;
          o[0] = local.x; o[1] = local.y; o[2] = size.x; o[3] = size.y;
          o[4] = group.x; o[5] = group.y; o[6] = index; o[7] = lane; o[8] = simd;
        }
        """
    )
    width, height = 21, 10
    out = torch.full((height, width, 9), 99, dtype=torch.int32)
    library.run("f", [out], (width, height), (8, 6))
    for y in range(height):
        for x in range(width):
            size = (min(8, width - x // 8 * 8), min(6, height - y // 6 * 6))
            index = y % 6 * size[0] + x % 8
            assert out[y, x].tolist() == [x % 8, y % 6, *size, x // 8, y // 6, index, index % 32, index // 32]


# -- messages --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "place", "words"),
    [
        ("Syntax error", "1:1", "unknown type name 'Syntax'"),
        ("printf(x);", "1:", "printf"),
        (
            "kernel void f(device half* x) {\n  x[0] = 1.0 + 2.5 + unknown;\n}",
            "2:22",
            "undeclared identifier 'unknown'",
        ),
        ("kernel void f(constant float* x) {\n\n  x[0] = 1;\n}", "3:8", "not assignable"),
        ("\nkernel void f(device float* x, uint i) {}", "2:32", "'i' of a kernel needs an attribute"),
        ("kernel void f(device float* x,\n  float4 i [[thread_position_in_grid]]) {}", "1:1", "must be ushort or uint"),
        ("kernel void f(device double* x) {}", "1:22", "'double' is not supported in Metal"),
        ("kernel void f(texture2d<float> t) {}", "1:15", "does not support 'texture2d'"),
        ("kernel void f(device float* x [[function_constant(a)]]) {}", "1:33", "does not support the attribute"),
        ("vertex float4 f() { return 0; }", "1:1", "does not support vertex functions"),
        ("#include <metal_nothing>\n", "1:10", "metal_nothing"),
        ("#error stop\n", "1:2", "stop"),
        ("kernel void f(device float* x) { x[0] = 1.", "1:", "expected"),
        ("}}}", "1:1", "extraneous"),
    ],
)
def test_errors_name_the_users_lines(source: str, place: str, words: str) -> None:
    message = error_of(source)
    assert f"program_source:{place}" in message
    assert words in message
    assert "error:" in message
    assert "/" + "tmp" not in message


def test_error_shows_the_users_own_line() -> None:
    message = error_of("constant float k = 1.0; kernel void f(device float* x) { x[0] = k + y; }")
    lines = message.split("\n")
    assert lines[1] == "constant float k = 1.0; kernel void f(device float* x) { x[0] = k + y; }"
    assert lines[1][lines[2].index("^")] == "y"


def test_versions_and_macros() -> None:
    source = "kernel void f(device int* x) { x[0] = __METAL_VERSION__; x[1] = VALUE; }"
    x = torch.zeros(2, dtype=torch.int32)
    # 3.1 as MTLLanguageVersion has it, and plain.
    for version, seen in ((0x30001, 310), (300, 300), (0, 320)):
        Shader(source, version=version, macros="VALUE=7").run("f", [x], 1)
        assert x.tolist() == [seen, 7]
    assert "bfloat" in error_of("kernel void f(device bfloat* x) {}", version=300)


# -- values ----------------------------------------------------------------------------------------------------------


def test_swizzles_and_constructors() -> None:
    library = shader(
        """
        template <typename T> T twice(T x) { return x + x; }
        kernel void f(device float4* x, device short3* s, device bool3* b) {
          float4 v = float4(1, float2(2, 3), 4);
          v.yx = v.zw;
          v.w += 1;
          v.xz *= 2.0f;
          x[0] = v;
          x[1] = twice(v.wzyx);
          x[2] = float4(v.xy, 0, 1).zyxw;
          x[3] = 5;
          s[0] = short3(v.xyz) << 2;
          b[0] = v.xyz > float3(3, 3, 100);
          x[4] = select(float4(1), float4(2), v > 4);
          x[5] = any(b[0]) && !all(b[0]) ? as_type<float4>(as_type<uint4>(v)) : 0;
        }
        """
    )
    x = torch.zeros(6, 4)
    s, b = torch.zeros(4, dtype=torch.int16), torch.zeros(4, dtype=torch.bool)
    library.run("f", [x, s, b], 1)
    v = [8.0, 3, 6, 5]
    expected = [v, [10, 12, 6, 16], [0, 3, 8, 1], [5] * 4, [2, 1, 2, 2], v]
    assert x.tolist() == expected
    assert s[:3].tolist() == [32, 12, 24]
    assert b[:3].tolist() == [True, False, False]


def test_layout_of_types() -> None:
    library = shader(
        """
        struct S { char c; half3 h; bool2 b; bfloat4 f; packed_uint3 p; ulong2 u; };
        kernel void f(device uint* x) {
          x[0] = sizeof(float3); x[1] = sizeof(array<packed_char3, 5>); x[2] = sizeof(half3); x[3] = sizeof(bool4);
          x[4] = sizeof(bfloat2); x[5] = sizeof(float3x3); x[6] = sizeof(float2x4); x[7] = alignof(float4);
          x[8] = sizeof(S); x[9] = sizeof(long); x[10] = alignof(ulong4);
        }
        """
    )
    x = torch.zeros(11, dtype=torch.int32)
    library.run("f", [x], 1)
    assert x.tolist() == [16, 15, 8, 4, 4, 48, 32, 16, 64, 8, 32]


def test_vectors_may_lie_anywhere() -> None:
    memory = torch.arange(20, dtype=torch.float32)
    shader("kernel void f(device float4* x) { x[1] = x[0] * 2 + 1; }").run("f", [memory[1:]], 1)
    assert memory[5:9].tolist() == [3, 5, 7, 9]


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64], ids=str)
def test_division_by_zero_is_defined(dtype: torch.dtype) -> None:
    a = torch.tensor([7, -7, 100, 5, 0], dtype=torch.int64).to(dtype)
    b = torch.tensor([0, 0, 7, -2, 0], dtype=torch.int64).to(dtype)
    wide = a.long(), b.long()
    quotient, remainder = evaluate(["a / b", "a % b"], [a, b], dtype)
    for i in range(5):
        x, y = int(wide[0][i]), int(wide[1][i])
        expected = (0, x) if y == 0 else (int(x / y), x - int(x / y) * y)
        assert (int(quotient[i]), int(remainder[i])) == expected


def test_smallest_integer_by_minus_one() -> None:
    a = torch.tensor([-(2**31), -(2**31)], dtype=torch.int32)
    b = torch.tensor([-1, 1], dtype=torch.int32)
    assert evaluate(["a / b", "a % b"], [a, b], torch.int32).tolist() == [[-(2**31)] * 2, [0, 0]]


def test_conversions_saturate() -> None:
    values = torch.tensor([1e30, -1e30, float("nan"), 300.7, -5.5])
    assert each("int(a)", [values], torch.int32).tolist() == [2**31 - 1, -(2**31), 0, 300, -5]
    assert each("uint(a)", [values], torch.int32).tolist() == [-1, 0, 0, 300, 0]
    assert each("long(a)", [values], torch.int64).tolist() == [2**63 - 1, -(2**63), 0, 300, -5]
    assert each("uchar(a)", [values], torch.uint8).tolist() == [255, 0, 0, 255, 0]


def test_integers_wrap() -> None:
    a = torch.tensor([2**31 - 1], dtype=torch.int32)
    assert each("(a + 1 < a) ? a + 1 : 0", [a], torch.int32).tolist() == [-(2**31)]


def test_literals() -> None:
    a = torch.zeros(1)
    literals = {
        "sizeof(1.0) + sizeof(1.0h) * 10 + 1e3 + .5": 4 + 20 + 1000.5,
        "0x1p-3 + 2.5bf + 1.f": 3.625,
        "1e-45 > 0 && 3.4028235e38 < INFINITY && isnan(NAN)": 1,
    }
    assert evaluate(list(literals), [a]).flatten().tolist() == list(literals.values())


@pytest.mark.parametrize("kind", ["half", "bfloat"])
def test_sixteen_bit_arithmetic_matches_torch(kind: str) -> None:
    dtype = torch.float16 if kind == "half" else torch.bfloat16
    a = torch.randn(2000, generator=torch.Generator().manual_seed(1)).to(dtype)
    b = torch.randn(2000, generator=torch.Generator().manual_seed(2)).to(dtype)
    library = shader(
        f"""
        kernel void f(device {kind}* a, device {kind}* b, device {kind}* out, uint i [[thread_position_in_grid]]) {{
          out[i] = a[i] + b[i]; out[2000 + i] = a[i] * b[i]; out[4000 + i] = a[i] / b[i]; out[6000 + i] = sqrt(abs(a[i]));
          {kind} sum = a[i]; sum += b[i]; sum -= {kind}(2); out[8000 + i] = -sum;
        }}
        """
    )
    out = torch.empty(5, 2000, dtype=dtype)
    library.run("f", [a, b, out], 2000)
    expected = [a + b, a * b, a / b, a.abs().sqrt(), -(a + b - 2)]
    for row, wanted in zip(out, expected):
        assert torch.equal(row, wanted)


UNARY = {
    "exp": torch.exp, "exp2": torch.exp2, "log": torch.log, "log2": torch.log2, "log10": torch.log10, "sin": torch.sin,
    "cos": torch.cos, "tan": torch.tan, "tanh": torch.tanh, "sinh": torch.sinh, "cosh": torch.cosh, "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt, "floor": torch.floor, "ceil": torch.ceil, "trunc": torch.trunc, "rint": torch.round,
    "sign": torch.sign, "abs": torch.abs, "fabs": torch.abs, "asin": torch.asin, "acos": torch.acos, "atan": torch.atan,
    "asinh": torch.asinh, "acosh": torch.acosh, "atanh": torch.atanh,
}  # fmt: skip


@pytest.mark.parametrize("spelling", ["", "metal::", "precise::", "fast::"])
def test_unary_mathematics(spelling: str) -> None:
    values = torch.cat([torch.linspace(-4, 4, 997), torch.tensor([0.0, float("inf"), -float("inf"), float("nan")])])
    statements = " ".join(f"out[{n} * count + i] = {spelling}{name}(x);" for n, name in enumerate(UNARY))
    library = shader(
        f"""
        kernel void f(device float* a, device float* out, constant uint& count, uint i [[thread_position_in_grid]]) {{
          float x = a[i]; {statements}
        }}
        """
    )
    out = torch.empty(len(UNARY), values.numel())
    library.run("f", [values, out, values.numel()], values.numel())
    for row, (name, function) in zip(out, UNARY.items()):
        torch.testing.assert_close(
            row, function(values.double()).float(), rtol=1e-6, atol=1e-7, equal_nan=True, msg=name
        )


def test_other_mathematics() -> None:
    a, b = torch.randn(100), torch.randn(100)
    expected = {
        "max(a, b)": torch.maximum(a, b),
        "clamp(a, -0.5, 0.5)": a.clamp(-0.5, 0.5),
        "pow(abs(a), b)": a.abs().pow(b),
        "atan2(a, b)": torch.atan2(a, b),
        "fmod(a, b)": torch.fmod(a, b),
        "mix(a, b, 0.25)": torch.lerp(a, b, 0.25),
        "fma(a, b, a)": (a.double() * b.double() + a.double()).float(),
        "dot(float2(a, b), float2(b, 2))": a * b + b * 2,
        "length(float3(a, b, 1))": (a * a + b * b + 1).sqrt(),
        "sinpi(a)": torch.sin(a.double() * torch.pi).float(),
        # Exactly zero, however large.
        "sinpi(floor(a * 1000)) == 0": torch.ones(100),
        "fract(a)": a - a.floor(),
    }
    for row, (expression, wanted) in zip(evaluate(list(expected), [a, b]), expected.items()):
        torch.testing.assert_close(row, wanted, rtol=1.3e-6, atol=1e-6, msg=expression)


def test_traits_limits_and_templates() -> None:
    a = torch.zeros(1)
    types = """
    template <typename T, typename = enable_if_t<is_floating_point_v<T>>> int kind(T) { return 1; }
    template <typename T, typename = enable_if_t<is_integral_v<T>>, typename = void> int kind(T) { return 2; }
    struct Sum { static constexpr constant int zero = 10; template <typename T> T operator()(T a, T b) const { return a + b; } };
    template <typename Op, int n> struct Fold { float run(thread const float (&x)[n]) { float s = Op::zero;
      for (int i = 0; i < n; ++i) s = Op()(s, x[i]); return s; } };
    constant float table[3] = {1, 2, 3};
    """
    assert each("kind(1.0h) + 10 * kind(1) + 100 * is_same_v<decltype(1.0), float>", [a], types=types).item() == 121
    assert each("numeric_limits<float>::max() == FLT_MAX && numeric_limits<half>::lowest() == -65504", [a]).item() == 1
    assert each("-numeric_limits<float>::infinity()", [a]).item() == -float("inf")
    text = "[&] { float x[3] = {table[2], 2, 3}; return Fold<Sum, 3>().run(x); }()"
    assert each(text, [a], types=types).item() == 18


def test_address_spaces_only_differ_for_metal() -> None:
    library = shader(
        """
        float first(device float* x) { return x[0]; }
        float first(threadgroup float* x) { return x[0]; }
        float first(constant float* x) { return x[0] + 100; }
        template <typename T> T second(const device T* y) { return y[1]; }
        template <typename T> T second(const thread T* x) { return x[1]; }
        struct Box { float v; float get() const device { return v; } float get() const thread { return v; }
                     float get() const constant { return v; } };
        kernel void f(device float* x, constant float* c, device Box& box, threadgroup float* t [[threadgroup(0)]]) {
          t[0] = 5;
          thread float local[2] = {1, 2};
          thread float* p = local;
          Box copy = box;
          x[1] = first(x) + first(c) + first(t) + second((const thread float*)p) + copy.get() + box.get();
        }
        """
    )
    x = torch.tensor([1.0, 0])
    library.run("f", [x, torch.tensor([2.0]), torch.tensor([0.5])], 1, 1, [16])
    assert x[1].item() == 1 + 102 + 5 + 2 + 1


# -- working together ------------------------------------------------------------------------------------------------


def test_atomics() -> None:
    library = shader(
        """
        kernel void f(device atomic_uint* count, device atomic_int* extremes, device atomic<float>* sum,
                      device atomic_uint* words, device int* values, uint i [[thread_position_in_grid]]) {
          atomic_fetch_add_explicit(count, 1u, memory_order_relaxed);
          atomic_fetch_max_explicit(&extremes[0], values[i], memory_order_relaxed);
          atomic_fetch_min_explicit(&extremes[1], values[i], memory_order_relaxed);
          atomic_fetch_add_explicit(sum, 0.5f, memory_order_relaxed);
          if (i == 3) {
            atomic_store_explicit(&words[0], 7, memory_order_relaxed);
            words[1].__value = atomic_exchange_explicit(&words[0], 9, memory_order_relaxed);
            uint expected = 8;
            bool changed = atomic_compare_exchange_weak_explicit(&words[0], &expected, 1u, memory_order_relaxed, memory_order_relaxed);
            atomic_store_explicit(&words[2], expected + (changed ? 100 : 0), memory_order_relaxed);
          }
        }
        """
    )
    values = torch.randint(-1000, 1000, (3000,), dtype=torch.int32)
    count, extremes = torch.zeros(1, dtype=torch.int32), torch.zeros(2, dtype=torch.int32)
    total, words = torch.zeros(1), torch.zeros(3, dtype=torch.int32)
    library.run("f", [count, extremes, total, words, values], 3000)
    assert count.item() == 3000
    assert extremes.tolist() == [values.max().item(), values.min().item()]
    assert total.item() == 1500
    assert words.tolist() == [9, 7, 9]


@pytest.mark.parametrize("count", [1, 31, 32, 33, 100, 1000, 1024, 2500])
def test_reduction_with_barriers(count: int) -> None:
    library = shader(
        """
        kernel void f(device float* x, device float* out, threadgroup float* shared [[threadgroup(0)]],
                      uint i [[thread_position_in_grid]], uint t [[thread_position_in_threadgroup]],
                      uint n [[threads_per_threadgroup]], uint g [[threadgroup_position_in_grid]]) {
          shared[t] = x[i];
          uint width = n;
          while (width > 1) {
            uint rest = (width + 1) / 2;
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (t + rest < width) shared[t] += shared[t + rest];
            width = rest;
          }
          if (t == 0) out[g] = shared[0];
        }
        """
    )
    x = torch.randint(-9, 9, (count,)).float()
    groups = (count + 1023) // 1024
    out = torch.zeros(groups)
    library.run("f", [x, out], count, min(count, 1024), [4096])
    assert out.tolist() == [float(part.sum()) for part in torch.split(x, 1024)]


def test_threads_may_return_before_a_barrier() -> None:
    library = shader(
        """
        kernel void f(device int* x, constant uint& n, uint t [[thread_position_in_threadgroup]]) {
          threadgroup int shared[64];
          shared[t] = 1;
          if (t >= n) return;
          threadgroup_barrier(mem_flags::mem_threadgroup);
          x[t] = shared[63 - t];
        }
        """
    )
    x = torch.zeros(64, dtype=torch.int32)
    library.run("f", [x, 10], 64, 64)
    assert x.tolist() == [1] * 10 + [0] * 54
    assert library.limits("f")[2] == 256


def test_barriers_in_different_branches_are_refused() -> None:
    library = shader(
        """
        kernel void f(device int* x, uint t [[thread_position_in_threadgroup]]) {
          if (t < 16) { threadgroup_barrier(mem_flags::mem_device); x[t] = 1; }
          else { x[t] = 2; threadgroup_barrier(mem_flags::mem_threadgroup); }
        }
        """
    )
    x = torch.zeros(64, dtype=torch.int32)
    with pytest.raises(ShaderError, match="kernel 'f' .*different calls of threadgroup_barrier"):
        library.run("f", [x], 64, 64)
    # The runtime is fit for the next kernel.
    test_reduction_with_barriers(100)


SIMD: dict[str, Callable[[list[int], int], int]] = {
    "simd_sum(v)": lambda g, i: sum(g),
    "simd_product(v % 4 ? 1 : 3)": lambda g, i: 3 ** sum(v % 4 == 0 for v in g),
    "simd_max(v)": lambda g, i: max(g),
    "simd_min(v)": lambda g, i: min(g),
    "simd_shuffle(v, 5)": lambda g, i: g[5],
    "simd_shuffle_xor(v, 3)": lambda g, i: g[i ^ 3],
    "simd_shuffle_down(v, 2)": lambda g, i: g[i + 2] if i + 2 < len(g) else g[i],
    "simd_shuffle_up(v, 2)": lambda g, i: g[i - 2] if i >= 2 else g[i],
    "simd_broadcast(v, 2)": lambda g, i: g[2],
}


@pytest.mark.parametrize("size", [32, 64, 44])
def test_simd_functions(size: int) -> None:
    statements = "\n".join(f"out[{n} * count + i] = {expression};" for n, expression in enumerate(SIMD))
    library = shader(
        f"""
        kernel void f(device int* x, device int* out, constant uint& count, uint i [[thread_position_in_grid]]) {{
          int v = x[i];
          {statements}
        }}
        """
    )
    x = torch.randint(0, 100, (size,), dtype=torch.int32, generator=torch.Generator().manual_seed(size))
    out = torch.zeros(len(SIMD), size, dtype=torch.int32)
    library.run("f", [x, out, size], size, size)
    for row, (expression, function) in zip(out, SIMD.items()):
        expected = []
        for group in torch.split(x, 32):
            values = group.tolist()
            expected += [function(values, i) for i in range(len(values))]
        assert row.tolist() == expected, expression


def test_divergent_lanes_meet_by_place() -> None:
    """Lanes of a branch that is not taken by all see each other only, and rejoin behind it."""
    library = shader(
        """
        kernel void f(device int* out, uint i [[thread_position_in_grid]]) {
          int result = 0;
          if (i % 2 == 0) {
            result = simd_sum(1);
            if (i % 8 == 0) result += 100 * simd_sum(1);
          } else {
            result = 10 * simd_sum(1);
          }
          for (uint k = 0; k < i % 4; ++k) result += 1000 * simd_sum(1);
          result += 1000000 * simd_sum(1);
          out[i] = result;
        }
        """
    )
    out = torch.zeros(32, dtype=torch.int32)
    library.run("f", [out], 32)
    rounds = {0: 0, 1: 24, 2: 24 + 16, 3: 24 + 16 + 8}
    expected = [
        (16 + (400 if i % 8 == 0 else 0) if i % 2 == 0 else 160) + 1000 * rounds[i % 4] + 32_000_000 for i in range(32)
    ]
    assert out.tolist() == expected


def test_collectives_behind_helpers_and_operators() -> None:
    library = shader(
        """
        struct Reducer { threadgroup int* memory;
          int all(int v, uint t) { memory[t] = v; threadgroup_barrier(mem_flags::mem_threadgroup);
            int s = 0; for (int k = 0; k < 40; ++k) s += memory[k]; return s; } };
        struct Wrapped { int v; };
        int operator+(Wrapped a, Wrapped b) { return simd_sum(a.v + b.v); }
        kernel void by_member(device int* x, uint t [[thread_position_in_threadgroup]]) {
          threadgroup int memory[40];
          Reducer r{memory};
          x[t] = r.all(x[t], t);
        }
        kernel void by_operator(device int* x, uint t [[thread_position_in_threadgroup]]) {
          x[t] = Wrapped{1} + Wrapped{2};
        }
        """
    )
    x = torch.arange(40, dtype=torch.int32)
    library.run("by_member", [x], 40, 40)
    assert x.eq(780).all()
    library.run("by_operator", [x], 40, 40)
    assert x.tolist() == [96] * 32 + [24] * 8


@pytest.mark.parametrize("kind", ["float", "half", "bfloat"])
def test_simdgroup_matrices(kind: str) -> None:
    dtype = {"float": torch.float32, "half": torch.float16, "bfloat": torch.bfloat16}[kind]
    library = shader(
        f"""
        kernel void f(device {kind}* a, device {kind}* b, device float* out, device {kind}* shifted) {{
          simdgroup_{kind}8x8 x, y, z;
          simdgroup_float8x8 sum = make_filled_simdgroup_matrix<float, 8, 8>(1.0);
          for (int k = 0; k < 2; ++k) {{
            simdgroup_load(x, a, 16, ulong2(8 * k, 0));
            simdgroup_load(y, b + k * 8, 16, 0, true);
            simdgroup_multiply_accumulate(sum, x, y, sum);
          }}
          simdgroup_store(sum, out);
          simdgroup_load(z, a, 16);
          z.thread_elements()[0] += {kind}(1);
          simdgroup_store(z, shifted);
          simdgroup_float8x8 d(3.0);
          simdgroup_store(d, out + 64);
        }}
        """
    )
    a, b = torch.randn(8, 16).to(dtype), torch.randn(8, 16).to(dtype)
    out, shifted = torch.zeros(2, 8, 8), torch.zeros(8, 8, dtype=dtype)
    library.run("f", [a, b, out, shifted], 32)
    torch.testing.assert_close(out[0].double(), a.double() @ b.double().t() + 1, rtol=1e-4, atol=1e-4)
    assert torch.equal(out[1], torch.eye(8) * 3)
    expected = a[:, :8].clone()
    expected[:, ::2] += 1
    assert torch.equal(shifted, expected)


def test_threadgroup_memory_starts_poisoned() -> None:
    library = shader(
        """
        kernel void f(device float* x, threadgroup float* dynamic [[threadgroup(1)]], uint t [[thread_index_in_threadgroup]]) {
          threadgroup float fixed[4];
          x[t * 2] = fixed[t]; x[t * 2 + 1] = dynamic[t];
          fixed[t] = dynamic[t] = 1;
        }
        """
    )
    x = torch.zeros(8)
    library.run("f", [x], 8, 4, [0, 16])
    assert x.isnan().all()


# -- misuse ----------------------------------------------------------------------------------------------------------


def test_threadgroup_limits() -> None:
    library = shader(
        """
        kernel void f(device float* x, threadgroup float* t [[threadgroup(0)]]) { x[0] = t[0]; }
        [[max_total_threads_per_threadgroup(64)]] kernel void g(device float* x) { x[0] = 1; }
        """
    )
    x = torch.zeros(1)
    assert library.limits("g")[0] == 64
    for name, group, lengths, words in (
        ("f", 2048, [16], "2048x1x1 threads, at most 1024"),
        ("g", 65, [], "at most 64"),
        ("f", 1, [], "no length is set for the threadgroup memory 't' at index 0"),
        ("f", 1, [40000], "40000 bytes of threadgroup memory, at most 32768"),
    ):
        with pytest.raises(ShaderError, match=words):
            library.run(name, [x], 4096, group, lengths)
    library.run("g", [x], 0, 1)
    assert x.item() == 0


def test_faults_are_reported_and_survived() -> None:
    library = shader(
        """
        int deep(int n, device int* x) { volatile int room[1000]; room[n % 1000] = n; return n ? deep(n - 1, x) + room[n % 1000] : 0; }
        kernel void wild(device int* x, uint i [[thread_position_in_grid]]) { x[i] = *(device int*)(ulong(x) | 1ul << 60); }
        kernel void unbound(device int* x [[buffer(3)]], uint i [[thread_position_in_grid]]) { x[i] = 1; }
        kernel void recursive(device int* x, uint i [[thread_position_in_grid]]) {
          x[i] = deep(1000000, x); threadgroup_barrier(mem_flags::mem_device); }
        kernel void trap(device int* x) { __builtin_trap(); }
        kernel void fine(device int* x, uint i [[thread_position_in_grid]]) {
          x[i] = i; simdgroup_barrier(mem_flags::mem_none); }
        """
    )
    x = torch.zeros(40, dtype=torch.int32)
    for _ in range(3):
        for name, words in (
            ("wild", "at an address that cannot exist"),
            ("unbound", "'unbound' accessed memory that it may not, at address 0x0"),
            ("recursive", "overflowed the stack"),
            ("trap", "stopped with signal"),
        ):
            with pytest.raises(ShaderError, match=words):
                library.run(name, [x], 40)
        library.run("fine", [x], 40, 40)
        assert x.tolist() == list(range(40))
        x.zero_()


# -- the cache -------------------------------------------------------------------------------------------------------

COMPILE = """
import ctypes
import sys
library = ctypes.CDLL(sys.argv[1])
library.mps_simulator_shader_compile.restype = ctypes.c_void_p
library.mps_simulator_shader_error.restype = ctypes.c_char_p
source = b"kernel void f(device float* x, uint i [[thread_position_in_grid]]) { x[i] = i * FACTOR; }"
handle = library.mps_simulator_shader_compile(source, b"FACTOR=" + sys.argv[2].encode(), 310, 0)
values = (ctypes.c_float * 4)()
if handle:
    sizes = (ctypes.c_uint64 * 6)(4, 1, 1, 4, 1, 1)
    pointers = (ctypes.c_void_p * 31)(ctypes.addressof(values))
    lengths = (ctypes.c_uint64 * 31)(16)
    handle = library.mps_simulator_shader_run(
        ctypes.c_void_p(handle), b"f", sizes, pointers, lengths, (ctypes.c_uint64 * 31)()
    )
print(list(values) if handle else library.mps_simulator_shader_error().decode())
"""


def compile_elsewhere(cache: Path, factor: int, **environment: str) -> subprocess.Popen[str]:
    """A process of its own that compiles and runs a kernel, then prints the result or the message."""
    return subprocess.Popen(
        [sys.executable, "-S", "-c", COMPILE, str(standalone_library()), str(factor)],
        env={**os.environ, "MPS_SIMULATOR_SHADER_CACHE": str(cache), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_cache(tmp_path: Path) -> None:
    cache = tmp_path / "shaders"
    # Three processes at once, on an empty cache.
    processes = [compile_elsewhere(cache, 3) for _ in range(3)]
    for process in processes:
        assert process.communicate()[0].strip() == "[0.0, 3.0, 6.0, 9.0]"
    libraries = list(cache.glob("*.so"))
    assert len(libraries) == 1
    leftovers = [path for path in cache.iterdir() if path.name.startswith(".")]
    assert not leftovers
    # No compiler is needed for what is there; a damaged file is made again; another source is another file.
    before = libraries[0].stat().st_mtime_ns
    assert "9.0]" in compile_elsewhere(cache, 3, MPS_SIMULATOR_PYTHON="/bin/false").communicate()[0]
    assert libraries[0].stat().st_mtime_ns == before
    libraries[0].write_bytes(b"damaged")
    assert "9.0]" in compile_elsewhere(cache, 3).communicate()[0]
    assert "6.0]" in compile_elsewhere(cache, 2).communicate()[0]
    assert len(list(cache.glob("*.so"))) == 2


def test_unusable_cache_and_compiler(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    message = compile_elsewhere(blocked / "below", 5).communicate()[0]
    assert "MPS_SIMULATOR_SHADER_CACHE" in message
    message = compile_elsewhere(tmp_path / "cache", 5, MPS_SIMULATOR_CLANG="no-such-clang").communicate()[0]
    assert "no-such-clang" in message and "MPS_SIMULATOR_CLANG" in message


THREADGROUP_ARRAYS = """
    kernel void arrays(device float* out [[buffer(0)]], constant int* at [[buffer(1)]],
                       threadgroup float* shared [[threadgroup(0)]], uint i [[thread_position_in_threadgroup]]) {
        threadgroup float first[8], second[8];
        threadgroup float4 third[2];
        if (i == 0) {
            first[at[0]] = 1;
            second[at[1]] = 2;
            third[at[2]] = 3;
            shared[at[3]] = 4;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        out[i] = first[0] + second[0] + third[0].x + shared[0];
    }
"""


def run_arrays(*at: int) -> torch.Tensor:
    """Writes elements of the arrays at the given places."""
    out = torch.zeros(8)
    places = b"".join(place.to_bytes(4, "little", signed=True) for place in at)
    Shader(PRELUDE + THREADGROUP_ARRAYS).run("arrays", [out, places], 8, 8, [64])
    return out


def test_threadgroup_arrays_within_their_bounds() -> None:
    assert run_arrays(0, 0, 0, 0).tolist() == [10.0] * 8
    run_arrays(7, 7, 1, 15)


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ((8, 0, 0, 0), "wrote beyond the threadgroup variable 'first': at offset 32, and its length is 32"),
        ((-1, 0, 0, 0), "wrote in front of the threadgroup variable 'first': at offset -4, and its length is 32"),
        ((0, -1, 0, 0), "wrote in front of the threadgroup variable 'second': at offset -4, and its length is 32"),
        ((0, 8, 0, 0), "wrote beyond the threadgroup variable 'second': at offset 32, and its length is 32"),
        ((0, 0, 2, 0), "wrote beyond the threadgroup variable 'third': at offset 32, and its length is 32"),
        ((0, 0, 0, 16), "wrote beyond the threadgroup memory 'shared' at index 0: at offset 64, and its length is 64"),
        ((0, 0, 0, -1), "wrote in front of the threadgroup memory 'shared' at index 0: at offset -"),
        ((0, 0, 0, -20000), "wrote in front of the threadgroup memory 'shared' at index 0: at offset -80000"),
    ],
)
def test_write_outside_of_threadgroup_memory_is_named(at: tuple[int, ...], message: str) -> None:
    with pytest.raises(ShaderError, match=re.escape(f"kernel 'arrays' {message}")):
        run_arrays(*at)


def test_columns_of_messages_behind_threadgroup_variables() -> None:
    with pytest.raises(ShaderError) as caught:
        Shader("kernel void f(device float* o) {\n  threadgroup float a[8], b[4]; o[0] = unknown;\n}")
    assert "program_source:2:40: error: use of undeclared identifier 'unknown'" in str(caught.value)
