"""Architectures of transformers."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForImageClassification,
    AutoModelForSeq2SeqLM,
)

from real_models.architecture import Architecture, constant, Inputs, normal, together, tokens

_SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 99,
    "max_position_embeddings": 64,
}
_SMALL_PAIR = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
}
_LONG = constant(attention_mask=torch.ones(2, 12, dtype=torch.long))
_IDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}

_GROUPED = {"num_key_value_heads": 2}

# By the name of the configuration: what is set beyond the small sizes.
_LANGUAGE: dict[str, dict[str, Any]] = {
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
    **dict.fromkeys(("llama", "qwen2", "phi3", "stablelm", "starcoder2", "cohere", "granite"), _GROUPED),
    "mistral": {**_GROUPED, "sliding_window": 8},
    "gemma": {**_GROUPED, "head_dim": 8},
    "gemma2": {**_GROUPED, "head_dim": 8, "sliding_window": 8},
    **dict.fromkeys(("phi", "gpt_neox", "falcon", "olmo", "olmo2", "persimmon"), {}),
    "mixtral": {**_GROUPED, "num_local_experts": 4},
    "mamba": {"state_size": 8},
    "rwkv": {"attention_hidden_size": 32, "context_length": 64},
    "opt": {"ffn_dim": 64, "word_embed_proj_dim": 32},
    "bloom": {"n_layer": 2, "n_head": 4},
    "gpt_neo": {"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]]},
    "gptj": {"n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4, "n_positions": 64},
    "codegen": {"n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4, "n_positions": 64},
    "mpt": {"d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 64},
    "xglm": {"d_model": 32, "num_layers": 2, "attention_heads": 4, "ffn_dim": 64},
    "qwen2_moe": {**_GROUPED, "num_experts": 4, "moe_intermediate_size": 16},
}
_ENCODERS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "deberta", "deberta-v2", "mpnet", "ernie", "megatron-bert"), {}),
    "distilbert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64},
    **dict.fromkeys(("albert", "electra", "convbert", "roformer"), {"embedding_size": 16}),
    "squeezebert": {"embedding_size": 32},
    "fnet": {"tpu_short_seq_length": 12},
    "nystromformer": {"num_landmarks": 4, "segment_means_seq_len": 12},
    "mobilebert": {"embedding_size": 16, "intra_bottleneck_size": 16},
}
_T5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
_PAIRS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("t5", "mt5"), _T5),
    **dict.fromkeys(("bart", "mbart", "pegasus", "marian", "blenderbot"), _SMALL_PAIR),
}
_STAGES = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}
_HEADS = {"num_attention_heads": [1, 2, 2, 4]}
_SWIN = {"patch_size": 2, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4}
_IMAGES: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("vit", "deit", "beit", "dinov2"), {"image_size": 32, "patch_size": 8}),
    **dict.fromkeys(("swin", "swinv2"), {"image_size": 32, **_SWIN}),
    **dict.fromkeys(("convnext", "convnextv2"), _STAGES),
    "segformer": {**_STAGES, **_HEADS, "decoder_hidden_size": 16},
    "resnet": {"embedding_size": 8, **_STAGES},
    "regnet": {"embedding_size": 8, **_STAGES, "groups_width": 8},
    "mobilenet_v2": {"depth_multiplier": 0.25, "image_size": 32},
    "poolformer": _STAGES,
    "pvt": {"image_size": 32, **_STAGES, **_HEADS},
    "mobilevit": {"image_size": 32, "hidden_sizes": [16, 24, 32], "neck_hidden_sizes": [8, 8, 16, 16, 24, 24, 32]},
    "focalnet": {"image_size": 32, "embed_dim": 16, "depths": [1, 1], "focal_levels": [2, 2], "focal_windows": [3, 3]},
}
_SOUND = {
    "conv_dim": [16, 16],
    "conv_kernel": [8, 4],
    "conv_stride": [4, 2],
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
    "mask_time_prob": 0.0,
}


def _config(name: str, values: dict[str, Any]) -> Any:
    known = AutoConfig.for_model(name)
    small = {key: value for key, value in _SMALL.items() if hasattr(known, key)}
    return AutoConfig.for_model(name, **{**small, **_IDS, **values})


def _make(auto: Any, name: str, values: dict[str, Any]) -> Callable[[], torch.nn.Module]:
    def make() -> Any:
        config = _config(name, values)
        if hasattr(config, "use_cache"):
            config.use_cache = False
        return auto.from_config(config)

    return make


def language_model(name: str) -> Any:
    """One that tells words apart: with the usual weights a small one gives the same token again and again."""
    return AutoModelForCausalLM.from_config(_config(name, {**_LANGUAGE[name], "initializer_range": 0.3}))


_MASK = "leave attention_mask out, or give it in four dimensions"


def language_models() -> Iterator[Architecture]:
    """With a mask of words, as tokenizers give it."""
    without_mask = ("mamba", "rwkv")
    for name, values in _LANGUAGE.items():
        inputs: Callable[[torch.Generator], Inputs] = tokens(2, 12)
        if name not in without_mask:
            inputs = together(inputs, _LONG)
        yield Architecture(name, "language", _make(AutoModelForCausalLM, name, values), inputs, _MASK)


def encoders() -> Iterator[Architecture]:
    """Encoders of text, and pairs of encoder and decoder."""
    for name, values in _ENCODERS.items():
        masked = tokens(2, 12) if name == "fnet" else together(tokens(2, 12), _LONG)
        yield Architecture(name, "encoder", _make(AutoModel, name, values), masked, _MASK)
    for name, values in _PAIRS.items():
        inputs = together(tokens(2, 12), _LONG, tokens(2, 7, name="decoder_input_ids"))
        yield Architecture(name, "encoder", _make(AutoModelForSeq2SeqLM, name, values), inputs, _MASK)


def speech() -> Iterator[Architecture]:
    """On waves, and on spectrograms."""
    for name in ("wav2vec2", "hubert", "wavlm", "unispeech"):
        yield Architecture(name, "speech", _make(AutoModel, name, _SOUND), normal(2, 400, name="input_values"))
    whisper = {
        **_SMALL_PAIR,
        "max_source_positions": 30,
        "max_target_positions": 20,
        "num_mel_bins": 16,
        "decoder_start_token_id": 1,
    }
    yield Architecture(
        "whisper",
        "speech",
        _make(AutoModel, "whisper", whisper),
        together(normal(2, 16, 60, name="input_features"), tokens(2, 7, name="decoder_input_ids")),
    )
    spectrogram = {"patch_size": 8, "max_length": 32, "num_mel_bins": 16, "frequency_stride": 8, "time_stride": 8}
    yield Architecture(
        "audio-spectrogram-transformer",
        "speech",
        _make(AutoModel, "audio-spectrogram-transformer", spectrogram),
        normal(2, 32, 16, name="input_values"),
    )


def vision() -> Iterator[Architecture]:
    """On images of 32 × 32 pixels."""
    for name, values in _IMAGES.items():
        # of this one the library has two classifiers, and asks which
        make = _make(AutoModel if name == "deit" else AutoModelForImageClassification, name, values)
        yield Architecture(f"{name} (transformers)", "vision", make, normal(2, 3, 32, 32, name="pixel_values"))
