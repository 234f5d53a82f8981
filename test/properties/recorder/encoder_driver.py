"""Loads encoder_driver.mm, which makes encoder calls on the MPS stream."""

import functools
import sys
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).resolve().parent
BUILD = HERE.parents[2] / "build" / "encoder_driver"
# Numbers of buffers, as the calls name them: those with data, and one for the sizes of indirect dispatches.
DATA, INDIRECT = (0, 1, 2, 3, 4), 5
BYTES = 512  # of each
PIPELINES = 3
# A module without annotations.
EncoderDriver = Any


@functools.cache
def driver() -> EncoderDriver:
    """Returns the driver's module, built and loaded on the first call, with the buffers that the calls bind."""
    from torch.utils import cpp_extension

    BUILD.mkdir(parents=True, exist_ok=True)
    frameworks = ("Foundation", "Metal", "MetalPerformanceShaders", "MetalPerformanceShadersGraph")
    on_mac = sys.platform == "darwin"
    module = cpp_extension.load(
        "encoder_driver_calls",
        [str(HERE / "encoder_driver.mm")],
        extra_cflags=["-DUSE_MPS", "-O1", "-fno-objc-arc", "-w"],
        extra_ldflags=[word for name in frameworks if on_mac for word in ("-framework", name)],
        build_directory=str(BUILD),
    )
    module.tensors = [torch.zeros(BYTES, dtype=torch.uint8, device="mps") for _ in (*DATA, INDIRECT)]
    module.begin([tensor.untyped_storage().data_ptr() for tensor in module.tensors])
    return module
