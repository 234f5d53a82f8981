"""Architectures of torchvision and timm: classifiers, segmentation, and detection.

Of detection there are whole models, and their networks without what chooses boxes.
"""

from collections.abc import Callable, Iterator
from typing import Any

import timm
import torch
import torchvision
from torchvision.models import detection

from real_models.architecture import Architecture, normal

_CLASSIFIERS = (
    "alexnet convnext_tiny densenet121 efficientnet_b0 googlenet mnasnet0_5 mobilenet_v2 mobilenet_v3_small regnet_y_400mf "
    "resnet18 resnet50 shufflenet_v2_x0_5 squeezenet1_1 swin_t vgg11_bn"
).split()
_SEGMENTATION = ("lraspp_mobilenet_v3_large", "fcn_resnet50", "deeplabv3_mobilenet_v3_large")
_TIMM = (
    "convnext_atto deit_tiny_patch16_224 edgenext_xx_small ghostnet_100 lcnet_050 mixer_s32_224 mobilevitv2_050 poolformer_s12 "
    "resmlp_12_224 resnet10t tf_efficientnet_lite0 vit_tiny_patch16_224"
).split()
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


_SMALL: dict[str, Any] = {"weights": None, "weights_backbone": None, "num_classes": 5}
_SIZE = {"min_size": 64, "max_size": 64}
# Random weights are sure of nothing.
_FEW: dict[str, Any] = {"score_thresh": 0.0, "topk_candidates": 30, "detections_per_img": 20}
_FEW_REGIONS = {"rpn_pre_nms_top_n_test": 50, "rpn_post_nms_top_n_test": 20}
# By the name in torchvision: what is set beyond the small sizes.
_MODELS: dict[str, dict[str, Any]] = {
    "fasterrcnn_mobilenet_v3_large_320_fpn": {**_SIZE, **_FEW_REGIONS},
    "fasterrcnn_resnet50_fpn": {**_SIZE, **_FEW_REGIONS},
    "maskrcnn_resnet50_fpn": {**_SIZE, **_FEW_REGIONS},
    "retinanet_resnet50_fpn": {**_SIZE, **_FEW},
    "fcos_resnet50_fpn": {**_SIZE, **_FEW},
    "ssd300_vgg16": _FEW,
    "ssdlite320_mobilenet_v3_large": _FEW,
}
_HELP = 'capture only the network (the rows "network" above), and choose boxes eagerly'


class _Whole(torch.nn.Module):
    """From a batch of images to boxes."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: torch.Tensor) -> Any:
        return self.model(list(images))


class _Network(torch.nn.Module):
    """The part without choices: backbone and head. Of those with two stages, the head that proposes regions."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.backbone = model.backbone
        self.head = model.rpn.head if hasattr(model, "rpn") else model.head

    def forward(self, images: torch.Tensor) -> Any:
        features = list(self.backbone(images).values())
        return features, self.head(features)


def detection_models() -> Iterator[Architecture]:
    """On images of 64 × 64 pixels, which the models with a fixed size enlarge."""

    def make(part: Callable[[Any], torch.nn.Module], name: str) -> Callable[[], torch.nn.Module]:
        return lambda: part(getattr(detection, name)(**{**_SMALL, **_MODELS[name]}))

    for name in _MODELS:
        images = normal(2, 3, 64, 64, name="images")
        yield Architecture(f"{name} (torchvision)", "detection", make(_Whole, name), images, _HELP, fallback=True)
        yield Architecture(f"{name}, network (torchvision)", "detection", make(_Network, name), images)
