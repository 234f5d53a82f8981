"""torch comes from the index of CPU builds if it answers and has the version, else from pip's own: pip against local indexes."""

import os
import socket
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from fork_tool.base.pin import load_pin
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import remove
from fork_tool.machine import environment as cpu_build
from fork_tool.machine.environment import install_cpu_build, install_requirements
from fork_tool.machine.machine import Machine
from workshop import LINUX, MAC, Workshop


def write_wheel(index: Path, version: str) -> Path:
    """A wheel that holds its version and nothing else, on the page of an index."""
    record = f"torch-{version}.dist-info"
    files = {
        "torch.py": f"version = {version!r}\n",
        f"{record}/METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n",
        f"{record}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{record}/RECORD"] = "".join(f"{file},,\n" for file in files)
    path = index / "torch" / f"torch-{version}-py3-none-any.whl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
    (path.parent / "index.html").write_text(f'<a href="{path.name}">{path.name}</a>')
    return path


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with pip alone."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    return folder


@pytest.fixture
def indexes(workshop: Workshop, environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two local indexes; pip's own has the usual wheel, and the environment has none yet."""
    for leftover in [*environment.glob("lib/python*/site-packages/torch*"), *environment.glob(".mpsfork*")]:
        remove(leftover)
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    folder = tmp_path / "indexes"
    write_wheel(folder / "own", "0.1")
    (folder / "cpu").mkdir()
    for name, value in {
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_INDEX_URL": f"file://{folder}/own",
        cpu_build.INDEX_VARIABLE: f"file://{folder}/cpu",
    }.items():
        monkeypatch.setenv(name, value)
    workshop.layout.requirements.write_text("")
    workshop.layout.environment.symlink_to(environment)
    return folder


def installed(shop: Workshop) -> str:
    """The version of torch that setup leaves in the environment."""
    assert install_requirements(shop.layout, load_pin(shop.layout.pin), LINUX)
    code = "import torch; print(torch.version)"
    command = [str(shop.layout.python), "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_index_that_has_it(indexes: Path, workshop: Workshop) -> None:
    write_wheel(indexes / "cpu", "0.1+cpu")
    assert installed(workshop) == "0.1+cpu"


@pytest.mark.parametrize("state", ["another version", "a broken wheel", "no page"])
def test_index_that_does_not_give_it(
    indexes: Path, workshop: Workshop, capfd: pytest.CaptureFixture[str], state: str
) -> None:
    if state == "another version":
        write_wheel(indexes / "cpu", "0.2+cpu")
    elif state == "a broken wheel":
        write_wheel(indexes / "cpu", "0.1+cpu").write_bytes(b"PK")
    assert installed(workshop) == "0.1"
    assert "torch==0.1 comes with 2.7 GB of CUDA's libraries" in " ".join(capfd.readouterr().out.split())


def test_index_that_gives_no_answer(indexes: Path, workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_build, "ANSWER_SECONDS", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv(cpu_build.INDEX_VARIABLE, f"http://127.0.0.1:{silent.getsockname()[1]}/")
        began = time.monotonic()
        assert not install_cpu_build(workshop.layout, load_pin(workshop.layout.pin), LINUX)
    assert time.monotonic() - began < 6


@pytest.mark.usefixtures("indexes")
@pytest.mark.parametrize(("machine", "variable"), [(MAC, "file:///there"), (LINUX, "")])
def test_index_that_is_not_asked(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, machine: Machine, variable: str
) -> None:
    monkeypatch.setenv(cpu_build.INDEX_VARIABLE, variable)
    monkeypatch.delattr(cpu_build, "run_shown")
    assert not install_cpu_build(workshop.layout, load_pin(workshop.layout.pin), machine)


def test_neither_index(indexes: Path, workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", f"file://{indexes}/nothing")
    with pytest.raises(ForkToolError, match="pip could not install the requirements"):
        install_requirements(workshop.layout, load_pin(workshop.layout.pin), LINUX)
