"""Checks of the sample of upstream's tests that `make test` runs, and of the lists of what remains."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from mps_simulator._build import read_build
from mps_simulator.remaining import of_file, read_list, split
from mps_simulator.run_test_mps import Worker, worker_environment

TESTS = Path(__file__).resolve().parent
SAMPLE = [
    line for line in (TESTS / "test_mps_sample.txt").read_text().splitlines() if line and not line.startswith("#")
]
OPERATIONS = read_build().checkout / "aten" / "src" / "ATen" / "native" / "mps" / "operations"

# For each file of the backend's operations, tests that go through it: names of
# operators of the database, or a pattern after a slash.
TOUCHED_BY = {
    "Activation": "nn_functional_relu nn_functional_gelu nn_functional_glu nn_functional_hardswish log_softmax",
    "AdaptivePooling": "nn_functional_adaptive_avg_pool2d nn_functional_adaptive_max_pool2d",
    "Attention": "nn_functional_scaled_dot_product_attention /TestSDPA",
    "BinaryKernel": "fmax fmin copysign complex",
    "BinaryOps": "add sub mul div_no_rounding_mode remainder atan2 logaddexp",
    "BitwiseOps": "bitwise_and bitwise_not bitwise_left_shift",
    "Blas": "dot addmv",
    "Bucketization": "bucketize searchsorted",
    "ConstantOps": "fill zero_ /test_fill",
    "Convolution": "nn_functional_conv2d nn_functional_conv_transpose2d nn_functional_conv1d /conv3d",
    "Copy": "clone /TestMPS::test_copy /TestMPS::test_to",
    "CrossKernel": "cross linalg_cross",
    "Distributions": "/TestMPS::test_(bernoulli|uniform|normal|random|multinomial)",
    "Eye": "eye",
    "FastFourierTransform": "fft_fft fft_irfft fft_rfft2",
    "FusedAdamAmsgradKernelImpl": "/TestOptimRenewedMPS::.*fused.*Adam_mps",
    "FusedAdamKernel": "/TestOptimRenewedMPS::.*fused.*Adam_mps",
    "FusedAdamKernelImpl": "/TestOptimRenewedMPS::.*fused.*Adam_mps",
    "FusedAdamWAmsgradKernelImpl": "/TestOptimRenewedMPS::.*fused.*AdamW_mps",
    "FusedAdamWKernel": "/TestOptimRenewedMPS::.*fused.*AdamW_mps",
    "FusedAdamWKernelImpl": "/TestOptimRenewedMPS::.*fused.*AdamW_mps",
    "FusedSgdKernel": "/TestOptimRenewedMPS::.*fused.*SGD_mps",
    "Gamma": "lgamma digamma polygamma_polygamma_n_1",
    "GridSampler": "/TestConvolutionMPS::test_grid_sample",
    "HistogramKernel": "histogram histc",
    "Im2Col": "nn_functional_unfold",
    "Indexing": "index_select nonzero masked_select index_fill /TestAdvancedIndexing",
    "Inverse": "linalg_inv linalg_inv_ex",
    "Lerp": "lerp",
    "Linear": "nn_functional_linear",
    "LinearAlgebra": "mm bmm addmm baddbmm triangular_solve",
    "LossOps": "nn_functional_mse_loss nn_functional_binary_cross_entropy nn_functional_nll_loss",
    "Normalization": "nn_functional_batch_norm nn_functional_layer_norm nn_functional_group_norm",
    "Pad": "nn_functional_pad_reflect nn_functional_pad_replicate nn_functional_pad_constant",
    "PixelShuffle": "nn_functional_pixel_shuffle nn_functional_pixel_unshuffle",
    "PointwiseOps": "addcmul addcdiv",
    "Pooling": "nn_functional_max_pool2d nn_functional_avg_pool2d",
    "Quantized": "/_int4_mm /_int8_mm",
    "RangeFactories": "arange linspace",
    "ReduceOps": "sum prod amax std norm median cumsum argmax",
    "RenormKernel": "renorm",
    "Repeat": "repeat repeat_interleave",
    "RnnOps": "/TestRNNMPS::test_lstm",
    "Scalar": "item",
    "ScatterGather": "scatter gather scatter_add",
    "Shape": "cat topk",
    "SoftMax": "softmax",
    "Sort": "sort argsort",
    "SpecialOps": "i0 special_i1",
    "SummaryOps": "/test_bincount",
    "TensorCompare": "clamp where nan_to_num isposinf",
    "TriangularOps": "tril triu tril_indices",
    "UnaryKernel": "erfinv exp tanh",
    "UnaryOps": "sin sqrt sigmoid log round",
    "UnfoldBackward": "/grad_match_unfold_",
    "Unique": "unique_consecutive /test_unique",
    "UpSample": "nn_functional_interpolate_bilinear nn_functional_upsample_nearest /test_upsample",
    "View": "as_strided /TestViewOpsMPS",
    "WeightNorm": "/test_weight_norm",
}


def pattern_of(word: str) -> str:
    return word[1:] if word.startswith("/") else rf"::test_output_(grad_)?match_{re.escape(word)}_cpu_"


def test_every_operation_of_the_backend_is_touched() -> None:
    assert {path.stem for path in OPERATIONS.glob("*.mm")} == set(TOUCHED_BY)
    # What is listed runs with the sample.
    listed = read_list(TESTS / "remaining_failures_15.2.txt")
    untouched = [
        f"{file}: {word}"
        for file, words in TOUCHED_BY.items()
        for word in words.split()
        if not any(re.search(pattern_of(word), test) for test in [*SAMPLE, *listed])
    ]
    assert untouched == []


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The ids of all tests of test_mps.py."""
    with (tmp_path_factory.mktemp("log") / "log").open("w") as log:
        worker = Worker(read_build().checkout / "test" / "test_mps.py", log, worker_environment())
        worker.stop()
    assert worker.ids
    return worker.ids


def test_every_class_is_touched(upstream: list[str]) -> None:
    classes = {test.partition("::")[0] for test in upstream}
    assert classes - {test.partition("::")[0] for test in SAMPLE} == set()


def test_the_sample_names_tests_that_exist_once(upstream: list[str]) -> None:
    assert [test for test, count in Counter(SAMPLE).items() if count > 1] == []
    own = {test for file, test in map(split, SAMPLE) if file == "test_mps.py"}
    assert own - set(upstream) == set()


@pytest.mark.parametrize("version", ["15.2", "14.5"])
def test_the_lists_name_tests_that_exist(version: str, upstream: list[str]) -> None:
    entries = read_list(TESTS / f"remaining_failures_{version}.txt")
    assert set(of_file(entries, "test_mps.py")) - set(upstream) == set()
    assert set(entries) & set(SAMPLE) == set()
