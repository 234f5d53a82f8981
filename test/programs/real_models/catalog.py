"""All architectures, and the eight of --quick."""

from collections.abc import Iterator
from itertools import chain

from real_models import diffusion, hugging_face, image_libraries
from real_models.architecture import Architecture

QUICK = (
    "gpt2",
    "llama",
    "bert",
    "t5",
    "wav2vec2",
    "segformer (transformers)",
    "resnet18 (torchvision)",
    "Stable Diffusion UNet",
)

# Trained for five steps, in float32.
TRAINED = (
    *QUICK,
    "gemma2",
    "mixtral",
    "qwen2_moe",
    "mamba",
    "distilbert",
    "deberta-v2",
    "bart",
    "whisper",
    "vit (transformers)",
    "pvt (transformers)",
    "swin (transformers)",
    "dinov2 (transformers)",
    "mobilenet_v2 (torchvision)",
    "efficientnet_b0 (torchvision)",
    "deeplabv3_mobilenet_v3_large (torchvision)",
    "convnext_atto (timm)",
    "mixer_s32_224 (timm)",
    "Stable Diffusion VAE",
    "DiT",
    "Flux",
)


def architectures() -> Iterator[Architecture]:
    return chain(
        hugging_face.language_models(),
        hugging_face.encoders(),
        hugging_face.speech(),
        hugging_face.vision(),
        image_libraries.torchvision_models(),
        image_libraries.detection_models(),
        image_libraries.timm_models(),
        diffusion.diffusion_models(),
    )
