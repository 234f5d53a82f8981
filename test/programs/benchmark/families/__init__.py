"""What builds a configuration, by the name that the data file uses."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchmark.case import Case
from benchmark.families import chains, demo, diffusion, encoders, language, training, vision

BUILDERS: dict[str, Callable[..., Case]] = {
    "activation chain": chains.build_activations,
    "linear chain": chains.build_linears,
    "kernel chain": chains.build_kernels,
    "matmul chain": chains.build_matmuls,
    "demo classifier": demo.build_classifier,
    "demo decoder": demo.build_decoder,
    "gpt": partial(language.build, style="gpt"),
    "llama": partial(language.build, style="llama"),
    "sentence encoder": encoders.build_sentence,
    "spectrogram encoder": encoders.build_spectrogram,
    "speech decoder": encoders.build_speech_decoder,
    "wave encoder": encoders.build_wave,
    "vocoder": encoders.build_vocoder,
    "vision": vision.build,
    "mm-dit": diffusion.build_mmdit,
    "dit": diffusion.build_dit,
    "unet": diffusion.build_unet,
    "vae": diffusion.build_vae,
    "training of a classifier": training.build_classifier,
    "training of an mlp": training.build_mlp,
    "training of a language model": training.build_language,
    "training of a sentence encoder": training.build_sentence,
    "training of a denoiser": training.build_denoiser,
    "optimizer": training.build_optimizer,
}
