"""mypy as upstream runs it on the modules of the series, with the stubs that upstream's build generates."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from checked_tree import CHECKOUT, git, LAYOUT, overlay_files, TOOLS, tools_environment
from lint_runner import read_linters

TYPED = LAYOUT.upstream_checks / "typed"
CACHE = LAYOUT.upstream_checks / "mypy_cache"
NEEDED = (
    *("mypy.ini", "mypy_plugins", "version.txt", "tools/*.py", "tools/autograd", "tools/pyi", "torchgen"),
    *("torch/*.py", "torch/*.pyi", "torch/*.pyi.in", "functorch/*.py"),
    *("aten/src/ATen/native/native_functions.yaml", "aten/src/ATen/native/tags.yaml"),
)
# Errors of other modules, whose generated files are missing, are upstream's; not to list them makes mypy keep what it
# found out about these modules.
QUIET = "\n[mypy-torch.*]\nignore_errors = True\n\n[mypy-torch.mps.*]\nignore_errors = False\n"
MODULES = ["torch/mps/__init__.py", *(path for path in overlay_files(".py") if path.startswith("torch/"))]


@pytest.fixture(scope="module")
def typed() -> Path:
    """The Python sources with the generated stubs, beside the checkout, where such files would be in the way."""
    TYPED.mkdir(parents=True, exist_ok=True)
    wanted = set(git("ls-files", "--cached", "--others", "--exclude-standard", *NEEDED).splitlines())
    for path in wanted:
        copy_if_other(CHECKOUT / path, TYPED / path)
    (TYPED / ".ci" / "docker").mkdir(parents=True, exist_ok=True)
    # Debian's tarball has no .ci, where mypy's plugin looks for the version that it must have.
    pins = next(linter.pins for linter in read_linters() if linter.code == "MYPY")
    (TYPED / ".ci/docker/requirements-ci.txt").write_text(next(pin for pin in pins if pin.startswith("mypy==")) + "\n")
    (TYPED / "torch" / "version.py").write_text("__version__: str\ncuda: str | None\nhip: str | None\n")
    (TYPED / "quiet.ini").write_text((TYPED / "mypy.ini").read_text("utf-8") + QUIET)
    generate = [str(TOOLS / "bin" / "python"), "-m", "tools.pyi.gen_pyi"]
    environment = {**tools_environment(), "PYTHONPATH": str(TYPED)}
    done = subprocess.run(generate, cwd=TYPED, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return TYPED


def copy_if_other(source: Path, target: Path) -> None:
    """Copy a file unless it is there, so that mypy sees what has changed."""
    if target.exists() and target.read_bytes() == source.read_bytes():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def mypy(tree: Path, *paths: str) -> list[str]:
    """The errors in these files, each a line."""
    command = [str(TOOLS / "bin" / "python"), "-m", "mypy", "--config-file", "quiet.ini", "--cache-dir", str(CACHE)]
    done = subprocess.run(
        [*command, *paths], cwd=tree, env=tools_environment(), capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if ": error: " in line]


def test_modules_are_typed(typed: Path) -> None:
    assert re.search(r"def _mps_graph_pool_handle\(\)", (typed / "torch/_C/__init__.pyi").read_text("utf-8"))
    assert mypy(typed, *MODULES) == []


def test_wrong_type_is_found(typed: Path) -> None:
    # In a module of its own: mypy would look at all of torch again for a change to one that torch imports.
    planted = typed / "torch/mps/planted.py"
    planted.write_text("import torch\n\n\ndef planted(n):\n    return torch._C._mps_planted(n)\n")
    try:
        found = mypy(typed, "torch/mps/planted.py")
    finally:
        planted.unlink()
    assert len(found) == 2
    assert "[no-untyped-def]" in found[0]
    assert '"_mps_planted"' in found[1]
