"""The wheel's file: its record, its Python files, its size, and that pip installs it for a Mac."""

from __future__ import annotations

import ast
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from fork_tool.common.errors import ForkToolError
from fork_tool.mac_library.archive import compile_findings, install_findings, record_findings, wheel_name, write_wheel
from fork_tool.mac_library.make import wheel_findings
from made_wheel import Made

_CHANGED = "torch/mps/__init__.py"


@pytest.fixture(scope="module")
def changed(replaced: dict[str, bytes]) -> set[str]:
    """The files that are not the official wheel's."""
    return set(replaced)


def rewritten(wheel: Path, into: Path, files: dict[str, bytes | None]) -> Path:
    """A copy of a wheel with other content of some files, or without them, and the record of before."""
    copy = into / wheel.name
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(copy, "w", zipfile.ZIP_STORED) as target:
        for entry in source.infolist():
            content = files.get(entry.filename, b"") if entry.filename in files else source.read(entry)
            if content is not None:
                target.writestr(entry.filename, content)
        for name in files.keys() - set(source.namelist()):
            target.writestr(name, files[name] or b"")
    return copy


def test_wheel_has_no_fault(made: Made, wheel: Path, changed: set[str]) -> None:
    assert wheel.name == wheel_name(made.bench.pin, made.bench.python)
    assert wheel_findings(made.bench, wheel, made.official, changed) == []
    assert wheel.stat().st_size - made.official.stat().st_size < 10_000_000


def test_wheel_is_the_same_when_made_again(made: Made, wheel: Path, replaced: dict[str, bytes], tmp_path: Path) -> None:
    again = write_wheel(made.bench.pin, made.bench.python, made.official, replaced, tmp_path)
    assert again.read_bytes() == wheel.read_bytes()


def test_stale_record(wheel: Path, tmp_path: Path) -> None:
    text = zipfile.ZipFile(wheel).read(_CHANGED)
    assert record_findings(rewritten(wheel, tmp_path, {_CHANGED: text + b"\n"})) == [
        f"{_CHANGED} is not the file that RECORD has"
    ]


def test_record_of_other_files(wheel: Path, tmp_path: Path) -> None:
    assert record_findings(rewritten(wheel, tmp_path, {_CHANGED: None, "torch/new.py": b""})) == [
        "RECORD does not have torch/new.py",
        f"RECORD has {_CHANGED}, which is not in the wheel",
    ]


def test_file_that_does_not_compile(wheel: Path, tmp_path: Path) -> None:
    broken = rewritten(wheel, tmp_path, {_CHANGED: b"def f(:\n"})
    (found,) = compile_findings(broken, {_CHANGED})
    assert found.startswith(f"{_CHANGED} does not compile (")


@pytest.mark.parametrize("minor", range(9, 14))
def test_files_compile_with_every_python(made: Made, wheel: Path, changed: set[str], minor: int) -> None:
    """By their grammar, and with that Python where this machine has it."""
    names = sorted(name for name in changed if name.endswith(".py"))
    assert len(names) > 5
    with zipfile.ZipFile(wheel) as archive:
        for name in names:
            ast.parse(archive.read(name), name, feature_version=(3, minor))
        program = shutil.which(f"python3.{minor}")
        check = "import sys; sys.exit(0 if sys.version_info[1] == int(sys.argv[1]) else 3)"
        if (
            program
            and subprocess.run([program, "-c", check, str(minor)], capture_output=True, check=False).returncode == 0
        ):
            for name in names:
                words = [program, "-c", "import sys; compile(sys.stdin.buffer.read(), sys.argv[1], 'exec')", name]
                done = subprocess.run(words, input=archive.read(name), capture_output=True, check=False)
                assert done.returncode == 0, done.stderr.decode()


def test_older_macos_and_other_pythons_are_refused(made: Made, wheel: Path) -> None:
    """The tag is looked at: the same call takes the wheel for the oldest macOS only."""
    older = made.bench.pin.model_copy(update={"platform": "macosx_12_0_arm64"})
    (found,) = install_findings(wheel, older, made.bench.python)
    assert found.startswith("pip does not install it for macosx_12_0_arm64: ")
    (found,) = install_findings(wheel, made.bench.pin, "3.8")
    assert "pip does not install it" in found


def test_what_the_wheel_says_of_itself(made: Made, wheel: Path) -> None:
    pin = made.bench.pin
    tag = f"cp{made.bench.python.replace('.', '')}"
    with zipfile.ZipFile(wheel) as archive:

        def read(name: str) -> str:
            return archive.read(name).decode()

        assert f"\nVersion: {pin.version}\n" in read(f"torch-{pin.version}.dist-info/METADATA")
        assert f"\nTag: {tag}-{tag}-{pin.platform}\n" in read(f"torch-{pin.version}.dist-info/WHEEL")
        assert f"__version__ = '{pin.version}'\n" in read("torch/version.py")
        lines = read("torch/__init__.py").splitlines()
        at = next(index for index, line in enumerate(lines) if "_load_global_deps()" in line and "def" not in line)
        assert "_mps_graph_loader.take_over()" in lines[at + 1]
        assert "def graph_capture" in read("torch/mps/graphs.py") or "graph_capture" in read("torch/mps/__init__.py")
        stubs = read("torch/_C/__init__.pyi")
        assert "class _MPSGraph:" in stubs
        ast.parse(stubs)
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        names = archive.namelist()
        assert not [name for name in names if name.startswith(f"torch-{pin.wheel_version}.dist-info")]


def test_official_wheel_of_another_release(made: Made, replaced: dict[str, bytes], tmp_path: Path) -> None:
    pin = made.bench.pin.model_copy(update={"wheel_version": "2.5.0"})
    with pytest.raises(ForkToolError, match=r"has no torch-2\.5\.0\.dist-info: base.toml names another release"):
        write_wheel(pin, made.bench.python, made.official, replaced, tmp_path)
    assert list(tmp_path.iterdir()) == []
