"""`pip install -e .` in a new environment gives `mpsfork`, which works in any folder of a checkout and says where it does not."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mpsfork_command
from fork_tool.paths import own_layout
from fork_tool.version import VERSION

ROOT = own_layout().root


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The command, and the checkout that it was installed from."""
    root = tmp_path_factory.mktemp("installed")
    copy = root / "checkout"
    copy.mkdir()
    for name in ("base.toml", "pyproject.toml", "Makefile", "requirements.txt"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "scripts", copy / "scripts", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    environment = root / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    pip = [str(environment / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--editable", "."], cwd=copy, check=True)
    return environment / "bin" / "mpsfork", copy


def run(command: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(command), *words], cwd=folder, capture_output=True, text=True, check=False)


def test_it_runs_the_checkout_that_one_is_in(installed: tuple[Path, Path]) -> None:
    command, copy = installed
    for folder in (copy, copy / "scripts" / "fork_tool"):
        done = run(command, folder, "--help")
        # The copy has no environment, and help makes none.
        assert done.returncode == 0 and "The tool's environment is not there yet" in done.stdout, done.stderr
        assert "verify" in done.stdout
    assert not (copy / ".venv").exists()
    if (ROOT / ".venv" / "bin" / "python").exists():
        done = run(command, ROOT / "docs", "--version")
        assert (done.returncode, done.stdout) == (0, f"{VERSION}\n"), done.stderr


def test_outside_of_a_checkout(installed: tuple[Path, Path], tmp_path: Path) -> None:
    # A folder of the same name alone makes none.
    (tmp_path / "scripts").mkdir()
    done = run(installed[0], tmp_path, "verify")
    assert done.returncode == 1
    assert done.stderr == (
        "error: mpsfork works on a checkout of its repository, and this folder is in none: "
        "cd to the checkout, or to any folder of it, and run it there.\n"
    )


def test_the_distribution_has_the_version_and_needs_nothing(installed: tuple[Path, Path]) -> None:
    python = installed[0].with_name("python")
    code = "import importlib.metadata as m; print(m.version('pytorch-mps-graph'), m.requires('pytorch-mps-graph'))"
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{VERSION} None\n"


def test_the_innermost_checkout_counts(tmp_path: Path) -> None:
    for root in (tmp_path, tmp_path / "build" / "inner"):
        (root / "scripts").mkdir(parents=True)
        (root / "scripts" / "mpsfork").touch()
        (root / "base.toml").touch()
    assert mpsfork_command.checkout_of(tmp_path / "build") == tmp_path
    assert mpsfork_command.checkout_of(tmp_path / "build" / "inner" / "scripts") == tmp_path / "build" / "inner"
