"""Architectures of torchvision and timm."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import timm
import torch
import torchvision

from real_models.architecture import Architecture, normal

_CLASSIFIERS = (
    "alexnet",
    "convnext_tiny",
    "densenet121",
    "efficientnet_b0",
    "googlenet",
    "mnasnet0_5",
    "mobilenet_v2",
    "mobilenet_v3_small",
    "regnet_y_400mf",
    "resnet18",
    "resnet50",
    "shufflenet_v2_x0_5",
    "squeezenet1_1",
    "swin_t",
    "vgg11_bn",
)
_SEGMENTATION = ("lraspp_mobilenet_v3_large", "fcn_resnet50", "deeplabv3_mobilenet_v3_large")
_TIMM = (
    "convnext_atto",
    "deit_tiny_patch16_224",
    "edgenext_xx_small",
    "ghostnet_100",
    "lcnet_050",
    "mixer_s32_224",
    "mobilevitv2_050",
    "poolformer_s12",
    "resmlp_12_224",
    "resnet10t",
    "tf_efficientnet_lite0",
    "vit_tiny_patch16_224",
)
_FIXED_SIZE = ("deit", "vit", "mixer", "resmlp")


def torchvision_models() -> Iterator[Architecture]:
    """Classifiers and segmentation on images of 64 × 64 pixels."""

    def classifier(name: str) -> Callable[[], torch.nn.Module]:
        options = {"init_weights": False} if name == "googlenet" else {}
        return lambda: torchvision.models.get_model(name, weights=None, **options)

    def segmentation(name: str) -> Callable[[], torch.nn.Module]:
        return lambda: torchvision.models.get_model(name, weights=None, weights_backbone=None)

    for name in _CLASSIFIERS:
        yield Architecture(f"{name} (torchvision)", "vision", classifier(name), normal(2, 3, 64, 64, name="x"))
    for name in _SEGMENTATION:
        name_of_input = "input" if name.startswith("lraspp") else "x"
        inputs = normal(2, 3, 64, 64, name=name_of_input)
        yield Architecture(f"{name} (torchvision)", "segmentation", segmentation(name), inputs)


def timm_models() -> Iterator[Architecture]:
    """Classifiers on images of 64 × 64 pixels."""

    def make(name: str) -> Callable[[], torch.nn.Module]:
        options = {"img_size": 64} if name.startswith(_FIXED_SIZE) else {}
        return lambda: timm.create_model(name, pretrained=False, num_classes=10, **options)

    for name in _TIMM:
        yield Architecture(f"{name} (timm)", "vision", make(name), normal(2, 3, 64, 64, name="x"))
