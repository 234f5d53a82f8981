"""The wheel's file: what it says of itself, its Python files, its size, and that pip installs it for a Mac."""

from __future__ import annotations

import ast
import csv
import zipfile
from pathlib import Path

import pytest

from fork_tool.common.errors import ForkToolError
from fork_tool.mac_library.archive import digest_of, install_findings, wheel_name, write_wheel
from made_wheel import Made


def test_pip_takes_the_wheel_for_a_mac(made: Made, wheel: Path) -> None:
    assert wheel.name == wheel_name(made.bench.pin, made.bench.python)
    assert install_findings(wheel, made.bench.pin, made.bench.python) == []
    assert wheel.stat().st_size - made.official.stat().st_size < 10_000_000


def test_wheel_is_the_same_when_made_again(made: Made, wheel: Path, replaced: dict[str, bytes], tmp_path: Path) -> None:
    again = write_wheel(made.bench.pin, made.bench.python, made.official, replaced, tmp_path)
    assert again.read_bytes() == wheel.read_bytes()


@pytest.mark.parametrize("minor", range(9, 14))
def test_files_compile_with_every_python(replaced: dict[str, bytes], minor: int) -> None:
    names = [name for name in replaced if name.endswith(".py")]
    assert len(names) > 5
    for name in names:
        ast.parse(replaced[name], name, feature_version=(3, minor))


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
        rows = list(csv.reader(read(f"torch-{pin.version}.dist-info/RECORD").splitlines()))
        assert sorted(row[0] for row in rows) == sorted(names)
        assert all(row[1] == digest_of(archive.read(row[0])) for row in rows if row[0].startswith("torch/mps/"))
        assert not [name for name in names if name.startswith(f"torch-{pin.wheel_version}.dist-info")]


def test_official_wheel_of_another_release(made: Made, replaced: dict[str, bytes], tmp_path: Path) -> None:
    pin = made.bench.pin.model_copy(update={"wheel_version": "2.5.0"})
    with pytest.raises(ForkToolError, match=r"has no torch-2\.5\.0\.dist-info: base.toml names another release"):
        write_wheel(pin, made.bench.python, made.official, replaced, tmp_path)
    assert list(tmp_path.iterdir()) == []
