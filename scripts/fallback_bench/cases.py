"""How each operator is called: inputs of several shapes and dtypes, and the call. Add an operator by adding a line.

Inputs are made on the CPU from a seed, so that both devices get the same; the call allocates nothing but its result.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

Shape = tuple[int, ...]
Maker = Callable[[Shape, torch.dtype], Sequence[Tensor]]
_aten: Any = torch.ops.aten
_linalg: Any = torch.linalg
_f: Any = functional
_t: Any = torch

_FLOATS = (torch.float32, torch.float16)
_SQUARE = ((16, 16), (8, 32, 32), (128, 128))
_VECTORS = ((1000,), (256, 256), (1024, 1024))
_IMAGES = ((1, 3, 32, 32), (4, 3, 128, 128))
_VOLUMES = ((1, 4, 8, 16, 16), (2, 8, 16, 32, 32))


@dataclass(frozen=True)
class Case:
    """One operator: the call, and the grid of its inputs."""

    call: Callable[..., Any]
    make: Maker
    shapes: tuple[Shape, ...]
    dtypes: tuple[torch.dtype, ...] = (torch.float32,)

    def inputs(self, shape: Shape, dtype: torch.dtype) -> list[Tensor]:
        """The tensors to call with, on the CPU; the same ones each time."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return list(self.make(shape, dtype))


def _normal(shape: Shape, dtype: torch.dtype) -> list[Tensor]:
    return [torch.randn(shape).to(dtype)]


def _positive(shape: Shape, dtype: torch.dtype) -> list[Tensor]:
    return [torch.rand(shape).add(0.5).to(dtype)]


def _integers(shape: Shape, dtype: torch.dtype) -> list[Tensor]:
    return [torch.randint(0, 10, shape).to(dtype)]


def _symmetric(shape: Shape, dtype: torch.dtype) -> list[Tensor]:
    matrix = torch.randn(shape)
    return [(matrix @ matrix.mT + shape[-1] * torch.eye(shape[-1])).to(dtype)]


def _factor_and_side(shape: Shape, dtype: torch.dtype) -> list[Tensor]:
    return [torch.randn(*shape[:-1], 4).to(dtype), torch.linalg.cholesky(_symmetric(shape, torch.float32)[0]).to(dtype)]


def _system(shape: Shape, dtype: torch.dtype) -> list[Tensor]:
    return [*_symmetric(shape, dtype), torch.randn(*shape[:-1], 4).to(dtype)]


def _reflectors(shape: Shape, dtype: torch.dtype) -> list[Tensor]:
    matrix, scales = torch.geqrf(torch.randn(shape))
    return [matrix.to(dtype), scales.to(dtype)]


def _image_and_grid(shape: Shape, dtype: torch.dtype) -> list[Tensor]:
    spatial = shape[2:]
    grid = torch.rand(shape[0], *spatial, len(spatial)).mul(2).sub(1)
    return [torch.randn(shape).to(dtype), grid.to(dtype)]


def _columns(shape: Shape, dtype: torch.dtype) -> list[Tensor]:
    batch, channels, height, width = shape
    return [torch.randn(batch, channels * 9, (height - 2) * (width - 2)).to(dtype)]


def _fold(columns: Tensor) -> Tensor:
    side = int(columns.shape[-1] ** 0.5) + 2
    result: Tensor = _aten.col2im(columns, [side, side], [3, 3], [1, 1], [0, 0], [1, 1])
    return result


def _transcript(shape: Shape, dtype: torch.dtype) -> list[Tensor]:
    steps, batch, classes = shape
    length = steps // 2
    return [
        torch.randn(shape).log_softmax(2).to(dtype),
        torch.randint(1, classes, (batch, length)),
        torch.full((batch,), steps),
        torch.full((batch,), length),
    ]


def _scores_and_label_sets(shape: Shape, dtype: torch.dtype) -> list[Tensor]:
    labels = torch.randint(0, shape[1], shape)
    labels[:, shape[1] // 2 :] = -1
    return [torch.randn(shape).to(dtype), labels]


def _two_points(shape: Shape, dtype: torch.dtype) -> list[Tensor]:
    points, others = torch.randn(shape), torch.randn(shape)
    distances = torch.cdist(points, others)
    return [tensor.to(dtype) for tensor in (torch.randn_like(distances), points, others, distances)]


# By the operator's name, without overload.
CASES: dict[str, Case] = {
    "aten::_cdist_backward": Case(
        lambda gradient, a, b, distances: _aten._cdist_backward(gradient, a, b, 2.0, distances),
        _two_points,
        ((64, 8), (512, 8)),
    ),
    "aten::_ctc_loss": Case(_f.ctc_loss, _transcript, ((32, 4, 20), (128, 16, 64))),
    "aten::_embedding_bag": Case(
        lambda table, bags, offsets: _f.embedding_bag(bags, table, offsets),
        lambda shape, dtype: [*_normal(shape, dtype), torch.randint(0, shape[0], (64,)), torch.arange(0, 64, 8)],
        ((1000, 32), (10000, 128)),
        _FLOATS,
    ),
    "aten::_int_mm": Case(
        _t._int_mm,
        lambda shape, dtype: torch.randint(-128, 128, (2, *shape)).to(dtype).unbind(),
        ((32, 32), (256, 256)),
        (torch.int8,),
    ),
    "aten::_linalg_eigh": Case(_linalg.eigh, _symmetric, _SQUARE),
    "aten::_linalg_eigvals": Case(_linalg.eigvals, _normal, _SQUARE),
    "aten::_linalg_solve_ex": Case(_linalg.solve, _system, _SQUARE),
    "aten::_standard_gamma": Case(_t._standard_gamma, _positive, _VECTORS),
    "aten::_upsample_bicubic2d_aa": Case(
        lambda image: _f.interpolate(image, scale_factor=0.5, mode="bicubic", antialias=True), _normal, _IMAGES
    ),
    "aten::_upsample_bilinear2d_aa": Case(
        lambda image: _f.interpolate(image, scale_factor=0.5, mode="bilinear", antialias=True), _normal, _IMAGES
    ),
    "aten::angle": Case(_t.angle, _normal, _VECTORS, (torch.float32, torch.complex64)),
    "aten::avg_pool3d": Case(lambda volume: _f.avg_pool3d(volume, 2), _normal, _VOLUMES, _FLOATS),
    "aten::cholesky_solve": Case(_t.cholesky_solve, _factor_and_side, _SQUARE),
    "aten::col2im": Case(_fold, _columns, _IMAGES, _FLOATS),
    "aten::fractional_max_pool2d": Case(
        lambda image: _f.fractional_max_pool2d(image, 2, output_ratio=(0.5, 0.5)), _normal, _IMAGES, _FLOATS
    ),
    "aten::grid_sampler_2d_backward": Case(
        lambda gradient, image, grid: _aten.grid_sampler_2d_backward(gradient, image, grid, 0, 0, False, [True, True]),
        lambda shape, dtype: [*_normal(shape, dtype), *_image_and_grid(shape, dtype)],
        _IMAGES,
    ),
    "aten::grid_sampler_3d": Case(
        lambda volume, grid: _f.grid_sample(volume, grid, align_corners=False), _image_and_grid, _VOLUMES
    ),
    "aten::histc": Case(lambda x: _t.histc(x, 20, -3, 3), _normal, _VECTORS),
    "aten::igamma": Case(
        _t.special.gammainc,
        lambda shape, dtype: [*_positive(shape, dtype), *_positive(shape, dtype)],
        _VECTORS,
        _FLOATS,
    ),
    "aten::im2col": Case(lambda image: _f.unfold(image, 3), _normal, _IMAGES, _FLOATS),
    "aten::isin": Case(lambda x: _t.isin(x, x[:5]), _integers, ((1000,), (100000,)), (torch.int64, torch.int32)),
    "aten::kthvalue": Case(lambda x: _t.kthvalue(x, 3), _normal, _VECTORS, (*_FLOATS, torch.int64)),
    "aten::lgamma": Case(_t.lgamma, _positive, _VECTORS, _FLOATS),
    "aten::linalg_cholesky_ex": Case(_linalg.cholesky, _symmetric, _SQUARE),
    "aten::linalg_eig": Case(_linalg.eig, _normal, _SQUARE),
    "aten::linalg_householder_product": Case(_linalg.householder_product, _reflectors, _SQUARE),
    "aten::linalg_lstsq": Case(_linalg.lstsq, _system, _SQUARE),
    "aten::linalg_matrix_exp": Case(_linalg.matrix_exp, _normal, _SQUARE),
    "aten::linalg_qr": Case(_linalg.qr, _normal, _SQUARE),
    "aten::linalg_svd": Case(_linalg.svd, _normal, _SQUARE),
    "aten::logspace": Case(
        lambda like: _t.logspace(0, 2, like.numel(), device=like.device, dtype=like.dtype),
        _normal,
        ((1000,), (100000,)),
    ),
    "aten::max_pool3d_with_indices": Case(lambda volume: _f.max_pool3d(volume, 2), _normal, _VOLUMES, _FLOATS),
    "aten::mode": Case(_t.mode, _integers, _VECTORS, (torch.int64, torch.float32)),
    "aten::multi_margin_loss": Case(
        _f.multi_margin_loss,
        lambda shape, dtype: [*_normal(shape, dtype), torch.randint(0, shape[1], shape[:1])],
        ((64, 10), (1024, 100)),
    ),
    "aten::multilabel_margin_loss_forward": Case(
        _f.multilabel_margin_loss, _scores_and_label_sets, ((64, 10), (512, 50))
    ),
    "aten::native_dropout": Case(lambda x: _t.native_dropout(x, 0.5, True), _normal, _VECTORS, _FLOATS),
    "aten::poisson": Case(_t.poisson, _positive, _VECTORS),
    "aten::quantize_per_tensor": Case(lambda x: _t.quantize_per_tensor(x, 0.1, 0, _t.qint8), _normal, _VECTORS),
    "aten::segment_reduce": Case(
        lambda x, lengths: _t.segment_reduce(x, "sum", lengths=lengths),
        lambda shape, dtype: [*_normal(shape, dtype), torch.full((4,), shape[0] // 4)],
        ((64, 16), (1024, 64)),
    ),
    "aten::slow_conv3d_forward": Case(
        _f.conv3d,
        lambda shape, dtype: [*_normal(shape, dtype), *_normal((shape[1], shape[1], 3, 3, 3), dtype)],
        _VOLUMES,
    ),
    "aten::unique_dim": Case(
        lambda x: _t.unique(x, dim=0), _integers, ((100, 4), (10000, 4)), (torch.int64, torch.float32)
    ),
    "aten::upsample_bicubic2d": Case(
        lambda image: _f.interpolate(image, scale_factor=2.0, mode="bicubic"), _normal, _IMAGES, _FLOATS
    ),
    "aten::upsample_trilinear3d": Case(
        lambda volume: _f.interpolate(volume, scale_factor=2.0, mode="trilinear"), _normal, _VOLUMES, _FLOATS
    ),
}
