"""torch comes from the index of CPU builds if it answers and has the version, else from pip's own: pip against local indexes."""

from __future__ import annotations

import base64
import hashlib
import http.server
import os
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fork_tool.base.pin import load_pin
from fork_tool.common.errors import ForkToolError
from fork_tool.common.files import remove
from fork_tool.machine import environment as cpu_build
from fork_tool.machine.environment import install_requirements
from fork_tool.machine.machine import Machine
from workshop import LINUX, MAC, Workshop


def write_wheel(folder: Path, version: str, whole: bool = True, name: str = "torch", wants: str = "") -> None:
    """A wheel that holds its version and nothing else."""
    folder.mkdir(parents=True, exist_ok=True)
    record = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"version = {version!r}\n",
        f"{record}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        + (f"Requires-Dist: {wants}\n" if wants else ""),
        f"{record}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    digests = {
        file: base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        for file, text in files.items()
    }
    lines = [f"{file},sha256={digest},{len(files[file])}\n" for file, digest in digests.items()]
    files[f"{record}/RECORD"] = "".join([*lines, f"{record}/RECORD,,\n"])
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
    if not whole:
        path.write_bytes(path.read_bytes()[:100])


class Indexes(http.server.ThreadingHTTPServer):
    """Each folder is an index; `silent` ones take the question and give no answer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.silent = False
        self.over = threading.Event()
        super().__init__(("127.0.0.1", 0), lambda *words: _Handler(*words, directory=str(folder)))

    def address(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{name}"


class _Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Indexes)
        if self.path.startswith("/cpu") and server.silent:
            server.over.wait(30)
            return
        super().do_GET()

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with pip alone."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    return folder


@pytest.fixture
def indexes(
    workshop: Workshop, environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Indexes]:
    """Two local indexes; pip's own has the usual wheel, and the environment has none yet."""
    for leftover in [*environment.glob("lib/python*/site-packages/torch*"), *environment.glob(".mpsfork*")]:
        remove(leftover)
    for name in [name for name in os.environ if name.startswith("PIP_")] + [cpu_build.INDEX_VARIABLE]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    server = Indexes(tmp_path / "indexes")
    write_wheel(server.folder / "own" / "torch", "0.1")
    (server.folder / "cpu" / "torch").mkdir(parents=True)
    monkeypatch.setenv("PIP_INDEX_URL", server.address("own"))
    pin = workshop.layout.pin
    pin.write_text(
        pin.read_text().replace('version = "0.1"\n', f'version = "0.1"\ncpu_index = "{server.address("cpu")}"\n')
    )
    workshop.layout.requirements.write_text("")
    workshop.layout.environment.symlink_to(environment)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.over.set()
    server.shutdown()
    server.server_close()


def installed(shop: Workshop, machine: Machine = LINUX) -> str:
    """The version of torch that setup leaves in the environment."""
    assert install_requirements(shop.layout, load_pin(shop.layout.pin), machine)
    code = "import torch; print(torch.version)"
    return subprocess.run(
        [str(shop.layout.python), "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_index_that_has_it(indexes: Indexes, workshop: Workshop, capsys: pytest.CaptureFixture[str]) -> None:
    write_wheel(indexes.folder / "cpu" / "torch", "0.1+cpu")
    assert installed(workshop) == "0.1+cpu"
    assert "needs none of CUDA's libraries" in " ".join(capsys.readouterr().out.split())


def test_index_without_the_version(indexes: Indexes, workshop: Workshop, capsys: pytest.CaptureFixture[str]) -> None:
    write_wheel(indexes.folder / "cpu" / "torch", "0.2+cpu")
    assert installed(workshop) == "0.1"
    said = " ".join(capsys.readouterr().out.split())
    assert "lacks this version; torch==0.1 comes with 2.7 GB of CUDA's libraries" in said


def test_wheel_that_pip_refuses(indexes: Indexes, workshop: Workshop, capfd: pytest.CaptureFixture[str]) -> None:
    write_wheel(indexes.folder / "cpu" / "torch", "0.1+cpu", whole=False)
    assert installed(workshop) == "0.1"
    assert "pip could not install it (see above); torch==0.1 comes with" in " ".join(capfd.readouterr().out.split())


def test_index_that_gives_no_answer(
    indexes: Indexes, workshop: Workshop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    indexes.silent = True
    monkeypatch.setattr(cpu_build, "ANSWER_SECONDS", 2.0)
    began = time.monotonic()
    assert not cpu_build.install_cpu_build(workshop.layout, load_pin(workshop.layout.pin), LINUX)
    assert time.monotonic() - began < 4
    assert "no answer within 2 s" in " ".join(capsys.readouterr().out.split())


def test_index_that_is_not_there(indexes: Indexes, workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cpu_build.INDEX_VARIABLE, "http://127.0.0.1:9/")
    began = time.monotonic()
    assert not cpu_build.install_cpu_build(workshop.layout, load_pin(workshop.layout.pin), LINUX)
    assert time.monotonic() - began < cpu_build.ANSWER_SECONDS + 1


@pytest.mark.usefixtures("indexes")
@pytest.mark.parametrize(("machine", "variable"), [(MAC, None), (LINUX, "")])
def test_index_that_is_not_asked(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, machine: Machine, variable: str | None
) -> None:
    def run(*_words: object, **_more: object) -> None:
        raise AssertionError("the index was asked")

    if variable is not None:
        monkeypatch.setenv(cpu_build.INDEX_VARIABLE, variable)
    monkeypatch.setattr(cpu_build.subprocess, "run", run)
    assert not cpu_build.install_cpu_build(workshop.layout, load_pin(workshop.layout.pin), machine)


def test_neither_index(indexes: Indexes, workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", indexes.address("nothing"))
    with pytest.raises(ForkToolError, match="pip could not install the requirements"):
        install_requirements(workshop.layout, load_pin(workshop.layout.pin), LINUX)


def test_pip_keeps_the_wheel_for_a_package_that_wants_the_base(indexes: Indexes, workshop: Workshop) -> None:
    """As torchvision does: docs/install.md shows how to use it with the wheel."""
    write_wheel(indexes.folder / "own" / "torch", "0.2")
    write_wheel(indexes.folder / "made", "0.1+mps.1")
    write_wheel(indexes.folder / "own" / "vision", "0.9", name="vision", wants="torch==0.1")

    def pip(*words: str) -> str:
        command = [str(workshop.layout.python), "-m", "pip", "--disable-pip-version-check", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    (made,) = (indexes.folder / "made").iterdir()
    pip("install", str(made))
    assert "Requirement already satisfied: torch==0.1" in pip("install", "vision==0.9")
    assert "torch==0.1+mps.1" in pip("list", "--format", "freeze")
    # What replaces it, and what prevents that.
    keep = indexes.folder / "keep.txt"
    keep.write_text("torch==0.1+mps.1\n")
    words = ("install", "--upgrade", "--find-links", str(made.parent), "torch")
    pip(*words, "--constraint", str(keep))
    assert "torch==0.1+mps.1" in pip("list", "--format", "freeze")
    pip("uninstall", "--yes", "vision")
    pip(*words)
    assert "torch==0.2" in pip("list", "--format", "freeze")
    # Back to the official one.
    pip("install", "--force-reinstall", "--no-deps", "torch==0.1")
    assert "torch==0.1\n" in pip("list", "--format", "freeze")
