"""Detection of torchvision: whole models, and their networks without what chooses boxes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torchvision.models import detection

from real_models.architecture import Architecture, normal

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
_HELP = "capture the network without what chooses boxes, the row below, and choose them eagerly"


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
