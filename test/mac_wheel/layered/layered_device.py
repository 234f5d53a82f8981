"""Runs programs on the layered build, and tells which functions of the official backend they went through."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import layered_build

# Of the official backend, these run: the take-over makes the official hooks before it knows that they are not wanted,
# and scaled_dot_product_attention of libtorch_cpu asks the backend for the version of macOS. None of them gives the
# device work or memory. Making a device object (`MPSDevice`) is part of the question.
HOOKS = (
    "at::mps::MPSHooks::",
    "std::unique_ptr<at::MPSHooksInterface",
    "c10::Registerer<",
    "std::_Function_handler<std::unique_ptr<at::MPSHooksInterface",
)
VERSION = (
    "at::mps::is_macos_13_or_newer(",
    "at::mps::MPSDevice::",
    "void c10::once_flag::call_once_slow<at::mps::MPSDevice::getInstance(",
)


@dataclass(frozen=True)
class Outcome:
    """What a program did: its exit, and what each of its processes told."""

    status: int
    output: str
    errors: str
    told: list[dict[str, Any]]

    @property
    def reached(self) -> list[str]:
        """Functions of the official backend that ran in any process."""
        return names_of({offset for one in self.told for offset in one["official"]})


# Inline functions and templates of headers, of which all libraries of a Linux process may use one copy: that of the
# library that was loaded first. And what stands for libtorch_cpu's own here: DispatchStub.cpp, and torch/csrc/api/src/mps.cpp.
_NOT_OWN = (
    *("c10::", "std::", "__gnu_cxx::", "non-virtual thunk to c10::"),
    *("at::native::DispatchStubImpl::", "at::native::compute_cpu_capability(", "at::native::get_cpu_capability("),
    "torch::mps::",
)


@cache
def _functions() -> dict[int, str | None]:
    """What is at an address: a function of the backend, or None for one that it only brings along."""
    library = layered_build.OFFICIAL / "libmps_simulator.so"
    listed = subprocess.run(
        ["nm", "-C", "--defined-only", str(library)], capture_output=True, text=True, check=True
    ).stdout
    functions: dict[int, str | None] = {}
    for line in listed.splitlines():
        address, kind, name = line.split(" ", 2)
        if kind in "tTwWu":
            own = "at::mps::" in name or "at::native::mps::" in name
            # A template returns a type, which is written before its name.
            own = own or not (name.startswith(_NOT_OWN) or re.match(r"[^(]* (std|c10|__gnu_cxx)::", name))
            functions[int(address, 16)] = functions.get(int(address, 16)) or (name if own else None)
    return functions


def names_of(offsets: Iterable[int]) -> list[str]:
    """Names the functions of the backend at these offsets of its library."""
    found = {_functions().get(offset, hex(offset)) for offset in offsets}
    return sorted(name for name in found if name is not None)


def beyond(reached: Iterable[str], *allowed: str) -> list[str]:
    """The functions that have no business to run; `allowed`: how names begin that do."""
    return [name for name in reached if not name.startswith((*HOOKS, *allowed))]


def run(
    words: Iterable[str],
    environment: Mapping[str, str] | None = None,
    directory: Path = layered_build.ROOT,
    where: Path = layered_build.LAYERED,
    timeout: float = 1500,
) -> Outcome:
    """Runs a Python program on the layered device; `where`: the build, the usual one or one with a fault."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("MPS_SIMULATOR", "TORCH_MPS"))
    }
    with tempfile.TemporaryDirectory() as reports:
        result = subprocess.run(
            [sys.executable, "-m", "mps_simulator", "--build", str(where), *words],
            env={
                **inherited,
                "PYTHONPATH": os.pathsep.join([str(layered_build.ROOT / "test/simulator"), str(layered_build.HERE)]),
                "PYTHONDONTWRITEBYTECODE": "1",
                "MPS_LAYERED_REPORTS": reports,
                **(environment or {}),
            },
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        told = [json.loads(path.read_text()) for path in sorted(Path(reports).glob("*.json"))]
    return Outcome(result.returncode, result.stdout, result.stderr, told)


def planted(directory: Path, library: Path) -> Path:
    """A build whose library of the patched backend is another one."""
    for name in ("mps_simulator.json", "changed_modules.json"):
        text = (layered_build.LAYERED / name).read_text()
        layered_build.write(directory / name, text.replace(str(layered_build.TORCH.parent), str(directory / "python")))
    for source in layered_build.TORCH.rglob("*.py"):
        layered_build.write(directory / "python" / source.relative_to(layered_build.TORCH.parent), source.read_text())
    target = directory / "python/torch/lib" / layered_build.LIBRARY.name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.symlink_to(library)
    return directory
