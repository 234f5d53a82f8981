"""Programs that generate text and images, as people write them; `prepare` compiles their models."""

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from real_models.programs import Prepare

_LANGUAGE_MODELS = ("llama", "mistral", "qwen2", "phi", "phi3", "gemma", "stablelm", "starcoder2", "olmo2", "granite")


def _generate(prepare: Prepare, batch: int, **options: Any) -> list[Tensor]:
    """The tokens of four prompts for each language model."""
    from real_models.hugging_face import language_model

    tokens: list[Tensor] = []
    config: Any = torch._dynamo.config
    with config.patch(cache_size_limit=2 * len(_LANGUAGE_MODELS)):
        for name in _LANGUAGE_MODELS:
            model = language_model(name).to("mps").eval()
            model.forward = prepare(model.forward)
            for _ in range(4):
                prompt = torch.randint(5, 99, (batch, 6)).to("mps")
                tokens.append(model.generate(prompt, cache_implementation="static", max_length=20, **options))
    return tokens


@torch.no_grad()
def language_models(prepare: Prepare) -> list[Tensor]:
    """generate() of ten language models with a static cache, in batches

    The program raises `torch._dynamo.config.cache_size_limit`. By default, Dynamo compiles a function at most 8 times and
    then runs it eagerly, with a warning. The models share a decorator of `forward` (transformers/utils/deprecation.py:121),
    and each model compiles it twice, for the prompt and for the other tokens.
    """
    return _generate(prepare, 4)


@torch.no_grad()
def streamed_language_models(prepare: Prepare) -> list[Tensor]:
    """generate() of ten language models with a static cache, streamed"""
    streamed: list[Tensor] = []
    streamer = SimpleNamespace(put=streamed.append, end=lambda: None)
    return _generate(prepare, 1, streamer=streamer) + streamed


@torch.no_grad()
def transcription(prepare: Prepare) -> list[Tensor]:
    """Whisper's generate() with a static cache"""
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    heads = {f"{part}_attention_heads": 4 for part in ("encoder", "decoder")}
    layers = {f"{part}_layers": 2 for part in ("encoder", "decoder")}
    sizes = {"d_model": 32, "num_mel_bins": 16, "max_source_positions": 30, "max_target_positions": 32}
    ids = {
        "vocab_size": 99,
        "begin_suppress_tokens": None,
        "decoder_start_token_id": 1,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
    }
    config = WhisperConfig(**heads, **layers, **sizes, **ids, init_std=0.3)
    model = WhisperForConditionalGeneration(config).to("mps").eval()
    model.forward = prepare(model.forward)
    prepare(model.model.encoder, in_place=True)
    sounds = [torch.randn(2, 16, 60).to("mps") for _ in range(6)]
    return [model.generate(sound, cache_implementation="static", max_new_tokens=20) for sound in sounds]


def _images(pipeline: Any, **options: Any) -> list[Tensor]:
    pipeline.set_progress_bar_config(disable=True)
    return [
        torch.from_numpy(
            pipeline(
                generator=torch.Generator().manual_seed(seed), num_inference_steps=20, output_type="np", **options
            ).images
        )
        for seed in range(3)
    ]


@torch.no_grad()
def diffusion_pipeline(prepare: Prepare) -> list[Tensor]:
    """a diffusers pipeline with its own scheduler, three seeds"""
    from diffusers import DDIMPipeline, DDIMScheduler, UNet2DModel

    blocks = {"down_block_types": ("DownBlock2D", "AttnDownBlock2D"), "up_block_types": ("AttnUpBlock2D", "UpBlock2D")}
    unet = UNet2DModel(sample_size=8, block_out_channels=(32, 32), layers_per_block=1, norm_num_groups=8, **blocks)
    pipeline = DDIMPipeline(unet, DDIMScheduler()).to("mps")
    pipeline.unet = prepare(pipeline.unet)
    return _images(pipeline, batch_size=2)


def _vae(**options: Any) -> Any:
    from diffusers import AutoencoderKL

    blocks = {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}
    return AutoencoderKL(block_out_channels=(16, 32), norm_num_groups=8, **blocks, **options)


@torch.no_grad()
def dit(prepare: Prepare) -> list[Tensor]:
    """diffusers' DiT pipeline, three seeds"""
    from diffusers import DDIMScheduler, DiTPipeline, DiTTransformer2DModel

    sizes = {"num_attention_heads": 2, "attention_head_dim": 8, "num_layers": 2, "sample_size": 8}
    transformer = DiTTransformer2DModel(in_channels=4, out_channels=8, norm_num_groups=4, **sizes)
    pipeline = DiTPipeline(transformer, _vae(latent_channels=4), DDIMScheduler()).to("mps")
    pipeline.transformer = prepare(pipeline.transformer)
    return _images(pipeline, class_labels=[1, 2])


@torch.no_grad()
def flux(prepare: Prepare) -> list[Tensor]:
    """diffusers' Flux pipeline, three seeds"""
    from diffusers import FlowMatchEulerDiscreteScheduler, FluxPipeline, FluxTransformer2DModel

    sizes = {"num_attention_heads": 2, "attention_head_dim": 16, "num_layers": 1, "num_single_layers": 2}
    text = {"joint_attention_dim": 32, "pooled_projection_dim": 32}
    transformer = FluxTransformer2DModel(
        in_channels=16, guidance_embeds=True, axes_dims_rope=(4, 4, 8), **sizes, **text
    )
    parts = {f"{name}{number}": None for name in ("text_encoder", "tokenizer") for number in ("", "_2")}
    vae = _vae(latent_channels=4, shift_factor=0.1)
    pipeline = FluxPipeline(FlowMatchEulerDiscreteScheduler(), vae, transformer=transformer, **parts).to("mps")
    pipeline.transformer = prepare(pipeline.transformer)
    texts = {"prompt_embeds": torch.randn(2, 6, 32), "pooled_prompt_embeds": torch.randn(2, 32)}
    return _images(pipeline, height=16, width=16, **{name: text.to("mps") for name, text in texts.items()})


PROGRAMS = (language_models, streamed_language_models, transcription, diffusion_pipeline, dit, flux)
