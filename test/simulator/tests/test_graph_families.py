"""Families of MPSGraph operations against the CPU, forward and backward.

Each case runs an operation of torch on the simulated device and on the CPU, in
single precision there, and compares the result and every gradient. The last
argument of a case names the MPSGraph method that must have been called, so that
no case passes by another way. The backend keeps its graphs: where a method is
named, no two cases may ask for the same graph.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any, TYPE_CHECKING

import pytest
import torch
import torch.nn.functional as F
from torch.func import functional_call  # type: ignore[attr-defined]

import mps_simulator

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Relative and absolute.
TOLERANCE = {
    torch.float32: (1e-4, 1e-5),
    torch.float16: (5e-3, 5e-3),
}
FLOATS = [torch.float32, torch.float16]


def random(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*sizes).to(dtype)


def called(method: str) -> bool:
    """Whether a method of MPSGraph that starts like this was called."""
    return any(f"[MPSGraph {method}" in name for name in mps_simulator.counters())


def outputs_and_gradients(
    function: Callable[..., Any], arguments: Sequence[Any], device: str, dtype: torch.dtype, backward: bool
) -> tuple[list[torch.Tensor], list[torch.Tensor | None]]:
    moved = []
    for argument in arguments:
        if isinstance(argument, torch.Tensor):
            floating = argument.is_floating_point()
            argument = argument.detach().to(device=device, dtype=dtype if floating else argument.dtype)
            argument = argument.clone(memory_format=torch.preserve_format)
            argument.requires_grad_(backward and floating)
        moved.append(argument)
    result = function(*moved)
    results = [result] if isinstance(result, torch.Tensor) else list(result)
    gradients: list[torch.Tensor | None] = []
    if backward:
        generator = torch.Generator().manual_seed(7)
        # The backend's pooling assumes that a gradient lies in memory as its input does.
        weighted = [
            tensor * torch.empty_like(tensor).copy_(torch.randn(tensor.shape, generator=generator))
            for tensor in results
            if tensor.requires_grad
        ]
        torch.stack([tensor.float().sum() for tensor in weighted]).sum().backward()
        gradients = [argument.grad for argument in moved if isinstance(argument, torch.Tensor)]
    return results, gradients


def check(
    function: Callable[..., Any],
    *arguments: Any,
    dtype: torch.dtype = torch.float32,
    backward: bool = True,
    method: str | None = None,
) -> None:
    mps_simulator.reset_counters()
    on_device, device_gradients = outputs_and_gradients(function, arguments, "mps", dtype, backward)
    exact = [
        argument.to(dtype).float() if isinstance(argument, torch.Tensor) and argument.is_floating_point() else argument
        for argument in arguments
    ]
    expected, expected_gradients = outputs_and_gradients(function, exact, "cpu", torch.float32, backward)
    if method is not None:
        assert called(method), f"{method} was not called"
    assert len(on_device) == len(expected)
    for actual, wanted in zip([*on_device, *device_gradients], [*expected, *expected_gradients]):
        if wanted is None:
            assert actual is None
            continue
        assert actual is not None
        relative, absolute = TOLERANCE[dtype] if wanted.is_floating_point() else (0.0, 0.0)
        found = actual.cpu()
        found = found.float() if found.is_floating_point() else found
        torch.testing.assert_close(found, wanted, rtol=relative, atol=absolute, equal_nan=True)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


POOLS: list[dict[str, Any]] = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": (3, 2), "stride": (1, 2), "padding": (1, 0)},
    {"kernel_size": 3, "stride": 2, "ceil_mode": True},
]


def channels_last(*sizes: int) -> torch.Tensor:
    return random(*sizes).to(memory_format=torch.channels_last)


class TestConvolution:
    @pytest.mark.parametrize("dtype", FLOATS)
    @pytest.mark.parametrize(
        "options", [(1, 0, 1, 1), ((2, 1), (1, 2), 1, 1), (1, 2, 2, 1), (2, 1, 1, 2), (3, (0, 1), (1, 2), 2)]
    )
    def test_images(self, dtype: torch.dtype, options: tuple[Any, ...]) -> None:
        inputs = random(2, 4, 11, 9), random(6, 4 // options[-1], 3, 2) / 4, random(6)
        method = "convolution2DWithSourceTensor"
        check(lambda x, w, b: F.conv2d(x, w, b, *options), *inputs, dtype=dtype, method=method)

    @pytest.mark.parametrize("multiplier", [1, 2])
    @pytest.mark.parametrize("options", [(1, 0, 1), (2, 1, 1), ((1, 2), (2, 1), (2, 1))])
    def test_depthwise(self, multiplier: int, options: tuple[Any, ...]) -> None:
        inputs = random(2, 3, 8, 7), random(3 * multiplier, 1, 3, 3)
        method = "depthwiseConvolution3DWithSourceTensor"
        check(lambda x, w: F.conv2d(x, w, None, *options, groups=3), *inputs, method=method)

    def test_channels_last(self) -> None:
        x = channels_last(2, 4, 8, 7)
        check(F.conv2d, x, random(6, 4, 3, 3), random(6), method="convolution2DWithSourceTensor")

    def test_line(self) -> None:
        check(lambda x, w: F.conv1d(x, w, None, 2, 1), random(2, 3, 12), random(5, 3, 3))

    @pytest.mark.parametrize("groups", [1, 2])
    def test_volumes(self, groups: int) -> None:
        inputs = random(2, 4, 5, 6, 7), random(4, 4 // groups, 2, 3, 3) / 4, random(4)
        options = (1, 2, 1), (1, 0, 2), (1, 1, 2), groups
        check(lambda x, w, b: F.conv3d(x, w, b, *options), *inputs, method="convolution3DWithSourceTensor")

    @pytest.mark.parametrize("groups", [1, 2])
    def test_transposed(self, groups: int) -> None:
        inputs = random(2, 4, 5, 6), random(4, 6 // groups, 3, 2) / 4, random(6)
        options = (2, 3), (1, 0), (1, 2), groups, (1, 1)
        method = "convolution2DDataGradientWithIncomingGradientTensor"
        check(lambda x, w, b: F.conv_transpose2d(x, w, b, *options), *inputs, method=method)

    def test_transposed_beyond_the_windows(self) -> None:
        inputs, options = (random(2, 2, 4, 4), random(2, 2, 4, 5)), ((3, 2), (1, 2), (2, 3), 2, (4, 4))
        method = "convolution2DDataGradientWithIncomingGradientTensor"
        check(lambda x, w: F.conv_transpose2d(x, w, None, *options), *inputs, backward=False, method=method)


class TestPooling:
    @pytest.mark.parametrize("dtype", FLOATS)
    @pytest.mark.parametrize("options", [*POOLS, {"kernel_size": 2, "stride": 1, "dilation": 2}])
    def test_maximum(self, dtype: torch.dtype, options: dict[str, Any]) -> None:
        pool = partial(F.max_pool2d, **options)
        check(pool, random(2, 3, 10, 9), dtype=dtype, method="maxPooling2DWithSourceTensor")

    @pytest.mark.parametrize("options", POOLS)
    def test_places_of_maximum(self, options: dict[str, Any]) -> None:
        pool = partial(F.max_pool2d, return_indices=True, **options)
        check(pool, random(2, 3, 10, 9), method="maxPooling2DReturnIndicesWithSourceTensor")

    @pytest.mark.parametrize("include", [True, False])
    @pytest.mark.parametrize("options", POOLS)
    def test_average(self, options: dict[str, Any], include: bool) -> None:
        pool = partial(F.avg_pool2d, count_include_pad=include, **options)
        check(pool, random(2, 3, 10, 9), method="avgPooling2DWithSourceTensor")

    def test_other_inputs(self) -> None:
        check(lambda x: F.max_pool2d(x, 2), torch.randint(-90, 90, (2, 3, 8, 6)), backward=False)
        # The maximum is never in the padding.
        zeros = torch.zeros(2, 3, 4, 4, dtype=torch.uint8)
        check(lambda x: F.max_pool2d(x, 2, padding=1, return_indices=True), zeros, backward=False)
        check(lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=5), random(2, 3, 10, 9))
        check(lambda x: F.avg_pool2d(x, 2), channels_last(2, 3, 8, 6))
        check(lambda x: F.max_pool2d(x, 2), channels_last(2, 3, 8, 6))
        check(lambda x: F.max_pool2d(x, 2), random(3, 8, 6))
        check(lambda x: F.adaptive_avg_pool2d(x, (2, 3)), random(2, 3, 8, 9))


class TestNormalization:
    @pytest.mark.parametrize("training", [True, False])
    @pytest.mark.parametrize("affine", [True, False])
    @pytest.mark.parametrize("sizes", [(4, 3), (4, 3, 5), (4, 3, 5, 6)])
    def test_batch(self, training: bool, affine: bool, sizes: tuple[int, ...]) -> None:
        def normalize(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
            mean = torch.linspace(-1, 1, 3, device=x.device, dtype=x.dtype)
            variance = torch.linspace(0.5, 2, 3, device=x.device, dtype=x.dtype)
            weight, bias = weights or (None, None)
            return F.batch_norm(x, mean, variance, weight, bias, training, 0.1, 1e-5)

        weights = (random(3), random(3)) if affine else ()
        check(normalize, random(*sizes), *weights, method="normalizationWithTensor")

    def test_running_statistics(self) -> None:
        layers = [torch.nn.BatchNorm2d(3), torch.nn.BatchNorm2d(3).to("mps")]
        x = random(4, 3, 5, 6) * 2 + 1
        for layer in layers:
            layer(x.to(layer.weight.device))
        assert layers[0].running_mean is not None and layers[1].running_mean is not None
        torch.testing.assert_close(layers[1].running_mean.cpu(), layers[0].running_mean)
        torch.testing.assert_close(layers[1].running_var.cpu(), layers[0].running_var)  # type: ignore[union-attr]

    def test_layer_group_instance(self) -> None:
        check(lambda x, w, b: F.layer_norm(x, (5, 6), w, b), random(2, 3, 5, 6), random(5, 6), random(5, 6))
        check(lambda x, w, b: F.group_norm(x, 2, w, b), random(2, 4, 5, 6), random(4), random(4))
        check(lambda x, w, b: F.instance_norm(x, None, None, w, b), random(2, 4, 5, 6), random(4), random(4))


class TestLinearAlgebra:
    @pytest.mark.parametrize("dtype", FLOATS)
    @pytest.mark.parametrize(
        ("left", "right"),
        [((4, 5), (5, 6)), ((3, 4, 5), (3, 5, 2)), ((2, 1, 4, 5), (3, 5, 2)), ((5,), (5, 3)), ((2, 4, 5), (5,))],
    )
    def test_product(self, dtype: torch.dtype, left: tuple[int, ...], right: tuple[int, ...]) -> None:
        check(torch.matmul, random(*left), random(*right), dtype=dtype)

    @pytest.mark.parametrize("diagonal", [-2, -1, 0, 1, 3])
    @pytest.mark.parametrize("function", [torch.tril, torch.triu])
    def test_triangles(self, function: Callable[..., torch.Tensor], diagonal: int) -> None:
        check(lambda x: function(x, diagonal), random(2, 5, 4), method="bandPartWithTensor")

    def test_inverse(self) -> None:
        check(torch.linalg.inv, random(3, 4, 4) + 4 * torch.eye(4), backward=False, method="inverseOfTensor")

    @pytest.mark.parametrize("causal", [True, False])
    def test_attention(self, causal: bool) -> None:
        q, k, v = (random(2, 3, 5, 4) for _ in range(3))
        check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal), q, k, v, backward=False)


class TestRecurrent:
    @pytest.mark.parametrize("bidirectional", [False, True])
    @pytest.mark.parametrize("bias", [True, False])
    @pytest.mark.parametrize("layers", [1, 2, 3])
    @pytest.mark.parametrize("batch_first", [False, True])
    def test_lstm(self, bidirectional: bool, bias: bool, layers: int, batch_first: bool) -> None:
        directions = 2 if bidirectional else 1
        module = torch.nn.LSTM(3, 4, layers, bias, batch_first, 0.0, bidirectional)
        names = [name for name, _ in module.named_parameters()]

        def run(x: torch.Tensor, h: torch.Tensor, c: torch.Tensor, *weights: torch.Tensor) -> list[torch.Tensor]:
            parameters = dict(zip(names, weights))
            output, (state, cell) = functional_call(module, parameters, (x, (h, c)))
            return [output, state, cell]

        inputs = random(*((2, 5) if batch_first else (5, 2)), 3), *(random(layers * directions, 2, 4) for _ in range(2))
        weights = [parameter.detach() for parameter in module.parameters()]
        check(run, *inputs, *weights, method="LSTMGradientsWithSourceTensor")


class TestGatherAndScatter:
    def test_gather(self) -> None:
        index = torch.randint(0, 5, (3, 2, 4))
        check(lambda x: torch.gather(x, 1, index.to(x.device)), random(4, 5, 4), method="gatherAlongAxis")

    @pytest.mark.parametrize("dim", [0, 1, -1])
    def test_index_select(self, dim: int) -> None:
        index = torch.tensor([2, 0, 2, 1])
        select = lambda x: torch.index_select(x, dim, index.to(x.device))  # noqa: E731
        check(select, random(3, 4, 5), method="gatherWithUpdatesTensor")

    @pytest.mark.parametrize("dim", [0, 1, 2])
    @pytest.mark.parametrize("rows", [3, 5])
    def test_scatter(self, dim: int, rows: int) -> None:
        index = torch.stack([torch.stack([torch.randperm(5)[:rows] for _ in range(rows)]) for _ in range(rows)])
        index = index.movedim(-1, dim)
        inputs = random(5, 5, 5), random(*index.shape)
        check(lambda x, y: torch.scatter(x, dim, index.to(x.device), y), *inputs, method="scatterAlongAxis")

    @pytest.mark.parametrize("mode", ["sum", "prod", "amin", "amax"])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
    def test_scatter_reduce(self, mode: str, dtype: torch.dtype) -> None:
        index = torch.randint(0, 4, (3, 6))
        inputs = (torch.randint(-4, 4, (3, size)).to(dtype) for size in (4, 6))
        reduce = lambda x, y: torch.scatter_reduce(x, 1, index.to(x.device), y, mode)  # noqa: E731
        check(reduce, *inputs, backward=False, method="scatterAlongAxis")

    def test_index_add_and_fill(self) -> None:
        index = torch.tensor([2, 0, 2])
        add = lambda x, y: torch.index_add(x, 1, index.to(x.device), y, alpha=2)  # noqa: E731
        check(add, random(3, 4, 2), random(3, 3, 2), method="scatterWithDataTensor")
        check(lambda x: torch.index_fill(x, 0, index.to(x.device), 7), random(3, 4), method="scatterWithDataTensor")

    @pytest.mark.parametrize("shape", [(), (5,), (2, 3)])
    def test_embedding(self, shape: tuple[int, ...]) -> None:
        index = torch.randint(0, 7, shape)
        check(lambda w: F.embedding(index.to(w.device), w), random(7, 4), method="scatterNDWithUpdatesTensor")

    def test_unique_and_counts(self) -> None:
        x = torch.randint(0, 6, (4, 5), dtype=torch.int32)
        check(lambda x: torch.unique(x, return_inverse=True, return_counts=True), x, backward=False)
        check(lambda x: torch.bincount(x.flatten(), minlength=9), x, backward=False)

    @pytest.mark.parametrize("weighted", [True, False])
    @pytest.mark.parametrize("sizes", [(4,), (4, 3, 2)])
    def test_cross_entropy(self, weighted: bool, sizes: tuple[int, ...]) -> None:
        target = torch.randint(0, 5, sizes)
        target.view(-1)[1] = -100
        weight = random(5).abs() if weighted else None
        check(
            lambda x: F.cross_entropy(x, target.to(x.device), None if weight is None else weight.to(x.device)),
            random(sizes[0], 5, *sizes[1:]),
            method="gatherWithUpdatesTensor",
        )


class TestSort:
    @pytest.mark.parametrize("descending", [False, True])
    @pytest.mark.parametrize("dim", [0, 1, -1])
    def test_sort(self, descending: bool, dim: int) -> None:
        x = torch.randint(-5, 5, (4, 6, 5)).float()
        x[1, 2, 3] = float("nan")
        x[2, 1, 1] = float("inf")
        sort = partial(torch.sort, dim=dim, descending=descending, stable=True)
        check(sort, x, backward=False, method="argSortWithTensor")

    @pytest.mark.parametrize("dtype", [torch.int16, torch.int32, torch.int64, torch.uint8])
    def test_integers(self, dtype: torch.dtype) -> None:
        x = torch.randperm(20).reshape(4, 5).to(dtype)
        check(lambda x: torch.sort(x, 1), x, backward=False, method="sortWithTensor")
        check(lambda x: torch.topk(x, 3), x, backward=False)

    def test_top_and_median(self) -> None:
        x = torch.randperm(30).reshape(5, 6).float()
        check(lambda x: torch.topk(x, 3, 0), x, method="sortWithTensor")
        check(lambda x: torch.topk(x, 17, 0, largest=False), torch.randperm(40).float(), method="sortWithTensor")
        check(lambda x: torch.median(x, 1), x, backward=False)


class TestFourier:
    @pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
    @pytest.mark.parametrize("last", [7, 8])
    def test_real(self, norm: str, last: int) -> None:
        x = random(3, 6, last)
        spectrum = lambda x: torch.view_as_real(torch.fft.rfft2(x, norm=norm))  # noqa: E731
        back = lambda x: torch.fft.irfft2(torch.view_as_complex(x), s=(6, last), norm=norm)  # noqa: E731
        check(spectrum, x, backward=False, method="realToHermiteanFFTWithTensor")
        check(back, spectrum(x), backward=False, method="HermiteanToRealFFTWithTensor")

    @pytest.mark.parametrize("function", [torch.fft.fft2, torch.fft.ifft2])
    @pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
    def test_complex(self, function: Callable[..., torch.Tensor], norm: str) -> None:
        transform = lambda x: torch.view_as_real(function(torch.view_as_complex(x), norm=norm))  # noqa: E731
        check(transform, random(3, 6, 5, 2), backward=False, method="fastFourierTransformWithTensor")


class TestResize:
    @pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear"])
    @pytest.mark.parametrize("size", [(7, 9), (3, 2), (5, 6), (200, 240)])
    def test_size(self, mode: str, size: tuple[int, int]) -> None:
        check(lambda x: F.interpolate(x, size, mode=mode), random(2, 3, 5, 6))

    @pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear"])
    @pytest.mark.parametrize("scale", [2.0, 0.5, 1.7, (1.3, 2.6)])
    @pytest.mark.parametrize("recompute", [True, False])
    def test_scale(self, mode: str, scale: Any, recompute: bool) -> None:
        check(
            partial(F.interpolate, scale_factor=scale, mode=mode, recompute_scale_factor=recompute), random(2, 3, 6, 8)
        )

    @pytest.mark.parametrize(("size", "height"), [((7, 9), 5), ((1, 4), 3)])
    def test_aligned_corners(self, size: tuple[int, int], height: int) -> None:
        resize = partial(F.interpolate, size=size, mode="bilinear", align_corners=True)
        check(resize, random(2, 3, height, 6), method="resizeBilinearWithTensor")

    @pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear"])
    def test_lines(self, mode: str) -> None:
        check(lambda x: F.interpolate(x, 9, mode=mode), random(2, 3, 5))
        check(lambda x: F.interpolate(x, scale_factor=2, mode=mode), random(2, 3, 5))


class TestSampleGrid:
    @pytest.mark.parametrize(
        ("mode", "padding", "align"), list(product(["bilinear", "nearest"], ["zeros", "reflection"], [True, False]))
    )
    def test_grid(self, mode: str, padding: str, align: bool) -> None:
        sample = partial(F.grid_sample, mode=mode, padding_mode=padding, align_corners=align)
        inputs = random(2, 3, 5, 6), random(2, 4, 7, 2) * 1.5
        check(sample, *inputs, backward=False, method="sampleGridWithSourceTensor")
