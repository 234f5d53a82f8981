"""Architectures of diffusers."""

from collections.abc import Callable, Iterator
from typing import Any

import diffusers
import torch

from real_models.architecture import Architecture, constant, Inputs, normal, together

_STEP = constant(timestep=torch.tensor([3, 7]))


def _model(name: str, kind: type[Any], inputs: Callable[[torch.Generator], Inputs], **sizes: Any) -> Architecture:
    return Architecture(name, "diffusion", lambda: kind(**sizes), inputs)


def diffusion_models() -> Iterator[Architecture]:
    """One step of denoising each, and the autoencoders."""
    blocks: dict[str, Any] = {"layers_per_block": 1, "block_out_channels": (16, 32), "norm_num_groups": 8}
    yield _model(
        "Stable Diffusion UNet",
        diffusers.UNet2DConditionModel,
        together(normal(2, 4, 16, 16, name="sample"), _STEP, normal(2, 7, 16, name="encoder_hidden_states")),
        sample_size=16,
        cross_attention_dim=16,
        attention_head_dim=4,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        **blocks,
    )
    yield _model(
        "DDPM UNet",
        diffusers.UNet2DModel,
        together(normal(2, 3, 16, 16, name="sample"), _STEP),
        sample_size=16,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=8,
        **blocks,
    )
    yield _model(
        "Stable Diffusion VAE",
        diffusers.AutoencoderKL,
        normal(2, 3, 32, 32, name="sample"),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        **blocks,
    )
    yield _model(
        "DiT",
        diffusers.DiTTransformer2DModel,
        together(normal(2, 4, 8, 8, name="hidden_states"), _STEP, constant(class_labels=torch.tensor([1, 2]))),
        num_attention_heads=2,
        attention_head_dim=8,
        in_channels=4,
        num_layers=2,
        sample_size=8,
        norm_num_groups=4,
    )
    yield _model(
        "PixArt",
        diffusers.PixArtTransformer2DModel,
        together(normal(2, 4, 8, 8, name="hidden_states"), _STEP, normal(2, 5, 16, name="encoder_hidden_states")),
        num_attention_heads=2,
        attention_head_dim=8,
        in_channels=4,
        out_channels=8,
        num_layers=2,
        cross_attention_dim=16,
        sample_size=8,
        caption_channels=16,
        use_additional_conditions=False,
    )
    yield _model(
        "Flux",
        diffusers.FluxTransformer2DModel,
        together(
            normal(2, 16, 4, name="hidden_states"),
            normal(2, 6, 32, name="encoder_hidden_states"),
            normal(2, 32, name="pooled_projections"),
            constant(
                timestep=torch.tensor([0.3, 0.7]), img_ids=torch.arange(48.0).reshape(16, 3), txt_ids=torch.zeros(6, 3)
            ),
        ),
        in_channels=4,
        num_layers=1,
        num_single_layers=2,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=32,
        pooled_projection_dim=32,
        axes_dims_rope=(4, 4, 8),
    )
    yield _model(
        "Stable Diffusion 3",
        diffusers.SD3Transformer2DModel,
        together(
            normal(2, 4, 8, 8, name="hidden_states"),
            normal(2, 5, 32, name="encoder_hidden_states"),
            normal(2, 64, name="pooled_projections"),
            _STEP,
        ),
        sample_size=8,
        in_channels=4,
        num_layers=2,
        attention_head_dim=8,
        num_attention_heads=4,
        caption_projection_dim=32,
        joint_attention_dim=32,
        pooled_projection_dim=64,
        out_channels=4,
    )
