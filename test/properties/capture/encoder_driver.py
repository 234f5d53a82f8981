"""Loads encoder_driver.mm, which makes encoder calls on the MPS stream."""

from __future__ import annotations

import ctypes
import functools
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[2]
# Numbers of buffers, as the calls name them: those with data, and one for the sizes of indirect dispatches.
DATA, INDIRECT = (0, 1, 2, 3, 4), 5
BYTES = 512  # of each
PIPELINES = 3


def _path_on_linux() -> Path:
    from mps_simulator._build import built_for_tests

    return built_for_tests("libencoder_driver.so", [HERE / "encoder_driver.mm"])


def _path_on_macos() -> Path:
    source = HERE / "encoder_driver.mm"
    path = REPOSITORY / "build" / "capture" / "libencoder_driver.dylib"
    if path.exists() and path.stat().st_mtime > source.stat().st_mtime:
        return path
    from torch.utils.cpp_extension import include_paths

    libraries = Path(torch.__file__).parent / "lib"
    path.parent.mkdir(parents=True, exist_ok=True)
    command = ["clang++", "-x", "objective-c++", "-std=gnu++17", "-fno-objc-arc", "-O1", "-DUSE_MPS"]
    command += [f"-I{directory}" for directory in include_paths()]
    command += ["-dynamiclib", str(source), "-o", str(path)]
    command += [f"-L{libraries}", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{libraries}"]
    for framework in ("Foundation", "Metal", "MetalPerformanceShaders", "MetalPerformanceShadersGraph"):
        command += ["-framework", framework]
    subprocess.run(command, check=True)
    return path


class EncoderDriver:
    """The driver's functions, with errors raised, and the buffers that the calls bind."""

    def __init__(self) -> None:
        path = _path_on_macos() if sys.platform == "darwin" else _path_on_linux()
        self._library = ctypes.CDLL(str(path))
        self._library.encoder_driver_error.restype = ctypes.c_char_p
        self._library.encoder_driver_stop_log.restype = ctypes.c_char_p
        self._tensors = [torch.zeros(BYTES, dtype=torch.uint8, device="mps") for _ in (*DATA, INDIRECT)]
        addresses = [tensor.untyped_storage().data_ptr() for tensor in self._tensors]
        self._buffers = ((ctypes.c_void_p * len(addresses))(*addresses), ctypes.c_size_t(len(addresses)))
        self._check(self._library.encoder_driver_make_pipelines())

    def _check(self, status: int) -> None:
        if status != 0:
            raise RuntimeError(self._library.encoder_driver_error().decode())

    def run(self, calls: Iterable[Sequence[int]]) -> None:
        """Makes the calls, each a code and its numbers, on the stream's encoder."""
        flat: list[int] = []
        for call in calls:
            flat += [call[0], len(call) - 1, *call[1:]]
        array = (ctypes.c_int64 * len(flat))(*flat)
        self._check(self._library.encoder_driver_run(array, ctypes.c_size_t(len(flat)), *self._buffers))

    def start_log(self) -> None:
        """Puts logging encoders in place of the device's, which sees nothing then."""
        self._check(self._library.encoder_driver_start_log(*self._buffers))

    def stop_log(self) -> str:
        """Puts the device's encoders back and returns the calls, one a line."""
        log: bytes | None = self._library.encoder_driver_stop_log()
        if log is None:
            raise RuntimeError(self._library.encoder_driver_error().decode())
        return log.decode()

    def commit_and_continue(self) -> None:
        """Commits in the middle of what the stream encodes; each replay of a capture does it again."""
        self._library.encoder_driver_commit_and_continue()

    def send(self, selector: str) -> None:
        """Sends the stream's encoder, a logging one, a message without arguments."""
        self._check(self._library.encoder_driver_send(selector.encode()))

    def responds(self, selector: str) -> bool:
        """Returns what the stream's encoder answers to respondsToSelector:."""
        answer: int = self._library.encoder_driver_responds(selector.encode())
        self._check(int(answer < 0))
        return answer == 1


@functools.cache
def driver() -> EncoderDriver:
    """Returns the driver, loaded on the first call."""
    return EncoderDriver()
