"""The sources that are checked: the patched checkout, the base, and small trees in which faults are planted."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from fork_tool.base.checkout import BASE_REF
from fork_tool.paths import own_layout
from fork_tool.series.overlay import list_overlay

LAYOUT = own_layout()
CHECKOUT = LAYOUT.checkout
TOOLS = LAYOUT.upstream_checks / "environment"
# What upstream's linters read besides the files that they look at.
SETTINGS = (".clang-format", ".flake8", ".cmakelintrc", ".lintrunner.toml", "pyproject.toml", "tools/linter")


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout


def overlay_files(*suffixes: str) -> list[str]:
    """The new files of the series, by the end of their names."""
    return [path for path in list_overlay(LAYOUT.overlay) if not suffixes or path.endswith(suffixes)]


def changed_files() -> list[str]:
    new = set(overlay_files())
    names = git("diff", "--name-only", "--diff-filter=M", BASE_REF).splitlines()
    return [name for name in names if name not in new]


def small_tree(name: str, revision: str, paths: Iterable[str] = ()) -> Path:
    """A directory with the settings of the linters, and with these files, as a commit has them."""
    directory = LAYOUT.upstream_checks / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    packed = subprocess.run(
        ["git", "archive", "--format=tar", revision, *SETTINGS, *paths], cwd=CHECKOUT, capture_output=True, check=True
    ).stdout
    subprocess.run(["tar", "--extract"], cwd=directory, input=packed, check=True)
    # Else it would be a part of this repository that git ignores, and isort leaves such files alone.
    subprocess.run(["git", "init", "--quiet"], cwd=directory, check=True)
    return directory


def tools_environment() -> dict[str, str]:
    """An environment in which `python3` and the programs are those of upstream's versions."""
    return {
        **os.environ,
        "PATH": f"{TOOLS / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": "",
    }


def torch_environment(simulated: bool, *more: Path) -> dict[str, str]:
    """An environment for Python with the wheel's torch, or with the patched one on the simulator."""
    path = [LAYOUT.simulator_source, *more]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": os.pathsep.join(map(str, path))}
    environment.pop("MPS_SIMULATOR", None)
    # With it, upstream's runner wants a package that writes XML.
    environment.pop("CI", None)
    if simulated:
        environment["MPS_SIMULATOR"] = "1"
    return environment


def run_python(*words: str, simulated: bool) -> subprocess.CompletedProcess[str]:
    """Run Python with these words in upstream's test directory, with the patched torch or the wheel's."""
    return subprocess.run(
        [str(LAYOUT.python), *words],
        cwd=CHECKOUT / "test",
        env=torch_environment(simulated),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def output_of(program: str, *words: str, simulated: bool) -> str:
    """What a program prints there; it must end well."""
    done = run_python("-c", program, *words, simulated=simulated)
    assert done.returncode == 0, done.stderr
    return done.stdout


def tools_packages() -> Path:
    """Where the tools' own modules lie, for tools that must import torch."""
    return TOOLS / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
