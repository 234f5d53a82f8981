"""The operations that are run, at several parameters each."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """One operation with its parameters."""

    kind: str
    parameters: str
    call: Callable[..., torch.Tensor]
    shapes: tuple[Shape, ...]
    dtype: torch.dtype = torch.float32

    def inputs(self) -> list[torch.Tensor]:
        """New ones, made on the CPU so that only the operation itself runs graphs."""
        return [torch.randn(shape).to(self.dtype).to("mps") for shape in self.shapes]


def _matmul() -> list[Case]:
    case = partial(Case, "matmul")
    square = ((64, 64), (64, 64))
    return [
        case("mm 64×64 · 64×64", torch.mm, square),
        case("mm 128×64 · 64×32", torch.mm, ((128, 64), (64, 32))),
        case("mm 64×64 · 64×64, f16", torch.mm, square, torch.float16),
        case("bmm 8 × 32×32 · 32×32", torch.bmm, ((8, 32, 32), (8, 32, 32))),
        case("bmm 4 × 16×48 · 48×16", torch.bmm, ((4, 16, 48), (4, 48, 16))),
        case("addmm 64×64 · 64×64", torch.addmm, ((64,), *square)),
        case("addmm 64×64 · 64×64, beta 0.5", partial(torch.addmm, beta=0.5), ((64,), *square)),
    ]


def _convolution() -> list[Case]:
    case = partial(Case, "convolution")
    image, weight = (2, 8, 16, 16), (16, 8, 3, 3)
    return [
        case("1d 3", F.conv1d, ((2, 8, 32), (16, 8, 3))),
        case("2d 3×3", F.conv2d, (image, weight)),
        case("2d 3×3, bias", F.conv2d, (image, weight, (16,))),
        case("2d 3×3, stride 2, padding 1", partial(F.conv2d, stride=2, padding=1), (image, weight)),
        case("2d 3×3, 4 groups", partial(F.conv2d, groups=4), (image, (16, 2, 3, 3))),
        case("2d 3×3, f16", F.conv2d, (image, weight), torch.float16),
        case("2d 3×3, transposed", F.conv_transpose2d, (image, (8, 16, 3, 3))),
    ]


def _attention() -> list[Case]:
    case = partial(Case, "attention")
    attention = F.scaled_dot_product_attention
    small, wide = ((1, 4, 16, 32),) * 3, ((1, 4, 16, 64),) * 3
    return [
        case("4 heads of 32, 16 tokens", attention, small),
        case("4 heads of 32, 16 tokens, causal", partial(attention, is_causal=True), small),
        case("4 heads of 32, 16 tokens, mask", attention, (*small, (16, 16))),
        case("4 heads of 64, 16 tokens", attention, wide),
        case("4 heads of 32, 1 token of 16", attention, ((1, 4, 1, 32), *small[1:])),
        case("4 heads of 32, 16 tokens, f16", attention, small, torch.float16),
    ]


def all_cases() -> list[Case]:
    """Matrix multiplication, convolution and attention."""
    return [*_matmul(), *_convolution(), *_attention()]
