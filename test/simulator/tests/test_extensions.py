"""Tests of extensions in Objective-C++, built by torch.utils.cpp_extension."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils import cpp_extension

SIMULATOR = Path(__file__).resolve().parents[1]
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
    checkout = Path(json.loads((SIMULATOR.parents[1] / "build/simulator/mps_simulator.json").read_text())["checkout"])
    result = subprocess.run(
        [sys.executable, "test_cpp_extensions_jit.py", "TestCppExtensionJIT.test_mps_extension"],
        cwd=checkout / "test",
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


@pytest.mark.usefixtures("_scale")
def test_raw_command_buffer_in_a_capture() -> None:
    """6: it raises, and the capture is dropped."""
    x = torch.arange(12.0).to("mps")
    graph = torch.mps.MPSGraph()
    message = "the stream's command buffer was taken, and what is encoded to it directly is not recorded."
    with pytest.raises(RuntimeError, match=f"^torch.mps graph capture: {re.escape(message)}$"), torch.mps.graph(graph):
        torch.ops.simulator_extension.scale(x + 1, 2.5)
    with pytest.raises(RuntimeError, match="this graph is empty"):
        graph.replay()
    with torch.mps.graph(graph):
        y = x + 1
    x.fill_(4)
    graph.replay()
    assert torch.equal(y.cpu(), torch.full((12,), 5.0))
    assert torch.equal(torch.ops.simulator_extension.scale(x, 2.5).cpu(), torch.full((12,), 10.0))


def test_error_names_the_line(tmp_path: Path) -> None:
    source = SOURCES / "does_not_compile.mm"
    line = 1 + source.read_text().splitlines().index("  return make_buffer_of(device, 16);")
    with pytest.raises(RuntimeError, match=rf"{re.escape(str(source))}:{line}:\d+: error: .*make_buffer_of"):
        load(source, tmp_path)


def test_environment_chooses_another_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Path(cpp_extension.get_cxx_compiler()).name == "mps-clang++"  # type: ignore[no-untyped-call]
    monkeypatch.setenv("CXX", "some-compiler")
    assert cpp_extension.get_cxx_compiler() == "some-compiler"  # type: ignore[no-untyped-call]
