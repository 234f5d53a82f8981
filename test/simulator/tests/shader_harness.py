"""Compiles and runs Metal kernels on torch CPU tensors, without Metal objects: for the shader compiler's own tests."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from mps_simulator._build import read_build

REPOSITORY = Path(__file__).resolve().parents[3]
BINDINGS = 31

Binding = torch.Tensor | bytes | int | float | None


@cache
def native() -> ctypes.CDLL:
    """The C interface."""
    os.environ.setdefault("MPS_SIMULATOR_SHADER_CACHE", str(REPOSITORY / "build" / "shader_cache"))
    library = ctypes.CDLL(str(read_build().library))
    library.mps_simulator_shader_compile.restype = ctypes.c_void_p
    library.mps_simulator_shader_compile.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint, ctypes.c_int]
    library.mps_simulator_shader_error.restype = ctypes.c_char_p
    library.mps_simulator_shader_release.argtypes = [ctypes.c_void_p]
    library.mps_simulator_shader_function_names.restype = ctypes.c_char_p
    library.mps_simulator_shader_function_names.argtypes = [ctypes.c_void_p]
    library.mps_simulator_shader_describe.restype = ctypes.c_char_p
    library.mps_simulator_shader_describe.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    library.mps_simulator_shader_argument_offset.restype = ctypes.c_int64
    library.mps_simulator_shader_argument_offset.argtypes = [*[ctypes.c_void_p, ctypes.c_char_p], *[ctypes.c_uint] * 2]
    library.mps_simulator_shader_run.argtypes = [ctypes.c_void_p, ctypes.c_char_p, *[ctypes.c_void_p] * 4]
    return library


def text_lines(text: Any) -> list[str]:
    """The lines of a C string."""
    return str(text.decode()).split("\n")[:-1]


@dataclass(frozen=True)
class Argument:
    """What the library says of a kernel's argument."""

    index: int
    threadgroup: bool
    writable: bool
    minimum_length: int
    name: str


class ShaderError(RuntimeError):
    """The message of a failed compilation or run."""


class Shader:
    """A compiled Metal library."""

    def __init__(self, source: str, *, version: int = 310, macros: str = "", fast_math: bool = False) -> None:
        self._handle = native().mps_simulator_shader_compile(source.encode(), macros.encode(), version, int(fast_math))
        if not self._handle:
            raise ShaderError(native().mps_simulator_shader_error().decode())

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            native().mps_simulator_shader_release(self._handle)

    @property
    def names(self) -> list[str]:
        """Names of the kernels."""
        return text_lines(native().mps_simulator_shader_function_names(self._handle))

    def _description(self, kernel: str) -> list[str]:
        text = native().mps_simulator_shader_describe(self._handle, kernel.encode())
        if text is None:
            raise ShaderError(native().mps_simulator_shader_error().decode() or f"no kernel {kernel}")
        return text_lines(text)

    def arguments(self, kernel: str) -> list[Argument]:
        """The kernel's buffer and threadgroup arguments."""
        result = []
        for line in self._description(kernel)[1:]:
            index, threadgroup, writable, minimum, name = line.split(" ", 4)
            result.append(Argument(int(index), threadgroup == "1", writable == "1", int(minimum), name))
        return result

    def limits(self, kernel: str) -> tuple[int, int, int]:
        """Largest threadgroup, execution width and static threadgroup memory."""
        first, second, third = self._description(kernel)[0].split()
        return int(first), int(second), int(third)

    def offset(self, kernel: str, index: int, identifier: int) -> int:
        """Byte offset of ``[[id(identifier)]]`` in an argument buffer."""
        return int(native().mps_simulator_shader_argument_offset(self._handle, kernel.encode(), index, identifier))

    def run(
        self,
        kernel: str,
        bindings: Sequence[Binding],
        threads: int | tuple[int, ...],
        group: int | tuple[int, ...] | None = None,
        threadgroup_lengths: Sequence[int] = (),
    ) -> None:
        """Runs a kernel; ``bindings`` by index. Numbers are bound as int32 and float32."""
        pointers = (ctypes.c_void_p * BINDINGS)()
        lengths = (ctypes.c_uint64 * BINDINGS)()
        kept = []
        for index, binding in enumerate(bindings):
            if binding is None:
                continue
            if isinstance(binding, torch.Tensor):
                pointers[index] = binding.data_ptr()
                lengths[index] = (
                    int(binding.untyped_storage().nbytes()) - int(binding.storage_offset()) * binding.element_size()
                )
                continue
            if isinstance(binding, int):
                binding = binding.to_bytes(4, "little", signed=binding < 0)
            elif isinstance(binding, float):
                binding = bytes(ctypes.c_float(binding))
            # 16 bytes more than asked for would hide a wrong length: exactly as many, but aligned.
            memory = ctypes.create_string_buffer(len(binding) + 64)
            address = (ctypes.addressof(memory) + 31) // 32 * 32
            ctypes.memmove(address, binding, len(binding))
            kept.append(memory)
            pointers[index] = address
            lengths[index] = len(binding)
        grid = (threads,) if isinstance(threads, int) else threads
        if group is None:
            group = (min(grid[0], 1024),)
        group = (group,) if isinstance(group, int) else group
        sizes = (ctypes.c_uint64 * 6)(*(tuple(grid) + (1, 1))[:3], *(tuple(group) + (1, 1))[:3])
        groups = (ctypes.c_uint64 * BINDINGS)(*threadgroup_lengths)
        if not native().mps_simulator_shader_run(self._handle, kernel.encode(), sizes, pointers, lengths, groups):
            raise ShaderError(native().mps_simulator_shader_error().decode())
