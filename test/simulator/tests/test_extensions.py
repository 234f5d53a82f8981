"""Tests of extensions in Objective-C++, built by torch.utils.cpp_extension."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils import cpp_extension

import mps_simulator
from mps_simulator._build import read_build

SOURCES = Path(__file__).parent / "extensions"


def load(source: Path, directory: Path) -> None:
    """Builds an extension that registers operators, and loads it."""
    cpp_extension.load(
        name=source.stem,
        sources=[str(source)],
        build_directory=str(directory),
        is_python_module=False,
    )


def test_upstreams_custom_kernel(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "test_cpp_extensions_jit.py", "TestCppExtensionJIT.test_mps_extension"],
        cwd=read_build().checkout / "test",
        env={
            # With CI set, upstream's runner wants a package that writes XML.
            **{name: value for name, value in os.environ.items() if name != "CI"},
            "MPS_SIMULATOR": "1",
            "TORCH_EXTENSIONS_DIR": str(tmp_path),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        timeout=580,
    )
    # A skipped test would say "OK (skipped=1)".
    assert re.search(r"^Ran 1 test in .*\n\nOK$", result.stderr, re.MULTILINE), result.stdout + result.stderr


@pytest.fixture(scope="module")
def _scale(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A process can have the extension's operators once."""
    load(SOURCES / "scale.mm", tmp_path_factory.mktemp("scale"))


@pytest.mark.usefixtures("_scale")
def test_operator_of_ones_own() -> None:
    x = torch.arange(12.0).reshape(3, 4)
    result = torch.ops.simulator_extension.scale(x.to("mps").t(), 2.5)
    assert result.device.type == "mps"
    assert torch.equal(result.cpu(), x.t() * 2.5)
    # synchronize() takes the queue unless the caller has it.
    torch.ops.simulator_extension.wait_on_the_queue()
    # It has a kernel for MPS alone.
    with pytest.raises(NotImplementedError, match="'CPU' backend"):
        torch.ops.simulator_extension.scale(x, 2.5)


def test_shim_of_aot_inductor_leaks_nothing(tmp_path: Path) -> None:
    """Its cases run on a Mac too, where objects are not counted."""
    source = read_build().checkout / "test/cpp_extensions/mps_aoti_shim_extension.cpp"
    shim = cpp_extension.load(name=source.stem, sources=[str(source)], build_directory=str(tmp_path))
    x = torch.zeros(8, device="mps")

    def use(number: int) -> None:
        """One library and one run; one that does not compile, a kernel that it lacks, and a run that fails."""
        text = f"kernel void add(device float* x, uint i [[thread_position_in_grid]]) {{ x[i] += {number}; }}"
        library = shim.create_library(text)[1]
        kernel = shim.get_kernel(library, "add")[1]
        block = lambda: (shim.start(kernel), shim.set_tensor(kernel, 0, x), shim.dispatch(kernel, 8))  # noqa: E731
        assert shim.run(kernel, block) == 0
        assert shim.create_library("kernel void broken(")[0] == 1
        assert shim.get_kernel(library, "missing")[0] == 1
        assert shim.run(kernel, lambda: shim.set_int(kernel, 0, 1)) == 1
        assert shim.delete_library(library) == 0

    def alive() -> dict[str, int]:
        torch.mps.synchronize()
        return {name: count for name, count in mps_simulator.live_objects().items() if "Command" not in name}

    use(1)
    before = alive()
    mps_simulator.reset_autorelease_leaks()
    for number in range(2, 7):
        use(number)
    after = alive()
    assert {name: after[name] - before.get(name, 0) for name in after if after[name] > before.get(name, 0)} == {}
    assert mps_simulator.autorelease_leaks() == {}
    assert torch.equal(x.cpu(), torch.full((8,), 21.0))


def test_error_names_the_line(tmp_path: Path) -> None:
    source = SOURCES / "does_not_compile.mm"
    line = 1 + source.read_text().splitlines().index("  return make_buffer_of(device, 16);")
    with pytest.raises(RuntimeError, match=rf"{re.escape(str(source))}:{line}:\d+: error: .*make_buffer_of"):
        load(source, tmp_path)


def test_environment_chooses_another_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Path(cpp_extension.get_cxx_compiler()).name == "mps-clang++"  # type: ignore[no-untyped-call]
    monkeypatch.setenv("CXX", "some-compiler")
    assert cpp_extension.get_cxx_compiler() == "some-compiler"  # type: ignore[no-untyped-call]
