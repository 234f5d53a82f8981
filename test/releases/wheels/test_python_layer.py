"""The series' Python on the release's torch for Linux, with a stand-in device and the overlay's own bindings."""

import re
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Run

from fork_tool.common.errors import ForkToolError
from fork_tool.releases.linux import lay_python
from fork_tool.releases.make import Made

HERE = Path(__file__).resolve().parent
ON_RELEASE = HERE / "on_release"
NOT_RUN = tomllib.loads((HERE / "stand_in" / "not_run.toml").read_text())
PYTEST = ("-m", "pytest", "-q", "-c", "/dev/null", "-p", "no:cacheprovider")
# Without the configuration beside this file, which wants this project's environment.
HERE_PYTEST = (*PYTEST, "--rootdir", str(ON_RELEASE), "--confcutdir", str(ON_RELEASE))


def passed(run: Run) -> int:
    """How many cases passed, if none failed."""
    assert run.status == 0, run.output[-6000:]
    found = re.search(r"(\d+) passed", run.output)
    assert found, run.output
    return int(found[1])


@pytest.mark.parametrize("file", sorted(path.name for path in ON_RELEASE.glob("test_*.py")))
def test_on_the_release(on_release: Callable[..., Run], file: str) -> None:
    assert passed(on_release(*HERE_PYTEST, ON_RELEASE / file)) > 0


@pytest.mark.parametrize("file", sorted(NOT_RUN))
def test_overlay_tests(on_release: Callable[..., Run], made: Made, tmp_path: Path, file: str) -> None:
    """The tests that the series brings, but for what the stand-in can't do."""
    shutil.copy(ON_RELEASE / "conftest.py", tmp_path)
    text = (tmp_path / "conftest.py").read_text().replace("Path(__file__).resolve().parents[1]", f"Path({str(HERE)!r})")
    (tmp_path / "conftest.py").write_text(text)
    shutil.copy(made.places.tree / "test" / file, tmp_path)
    left_out = [f"--deselect={file}::{each['case']}" for each in NOT_RUN[file]]
    # The stand-in device runs every operator on the CPU.
    variables = {"PYTORCH_ENABLE_MPS_FALLBACK": "1"}
    run = on_release(*PYTEST, "--rootdir", tmp_path, *left_out, file, directory=tmp_path, **variables)
    deselected = re.search(r"(\d+) deselected", run.output)
    assert passed(run) > 10
    assert int(deselected[1] if deselected else 0) == len(NOT_RUN[file]), "not_run.toml names a case that is not there"


def test_without_the_adapter_nothing_is_registered(on_release: Callable[..., Run]) -> None:
    run = on_release(*HERE_PYTEST, ON_RELEASE / "test_accelerator.py", MPSFORK_NO_ADAPTER="1")
    assert run.status != 0
    assert "Graph is not supported on device type: mps" in run.output


def test_without_its_hunks_the_release_ends_the_process(
    on_release: Callable[..., Run], made: Made, packages: Path
) -> None:
    """2.13's own memory.py, which the patch accelerator-graph changes."""
    original = (made.places.wheel / "torch" / "accelerator" / "memory.py").read_bytes()
    patched = packages / "torch" / "accelerator" / "memory.py"
    program = (
        f"import sys; sys.path.insert(0, {str(HERE / 'stand_in')!r})\n"
        f"from pathlib import Path; import stand_in; torch, _ = stand_in.load(Path({str(made.stand_in)!r}))\n"
        "torch.accelerator.empty_host_cache(); print('went on')\n"
    )
    assert "went on" in on_release("-c", program).output
    kept = patched.read_bytes()
    try:
        patched.write_bytes(original)
        run = on_release("-c", program)
    finally:
        patched.write_bytes(kept)
    assert run.status < 0 and "went on" not in run.output


def test_a_wrong_signature_is_seen(on_release: Callable[..., Run], made: Made, tmp_path: Path) -> None:
    stubs = made.places.tree / "torch" / "_C" / "__init__.pyi.in"
    planted = tmp_path / "stubs.pyi"
    planted.write_text(
        stubs.read_text().replace("check_input_liveness: _bool = True,", "check_liveness: _bool = True,")
    )
    run = on_release(*HERE_PYTEST, ON_RELEASE / "test_signatures.py", MPSFORK_STUBS=str(planted))
    assert run.status != 0 and "check_liveness" in run.output


def test_python_of_another_release_is_refused(on_release: Callable[..., Run], made: Made, packages: Path) -> None:
    record = next(packages.glob("torch-*.dist-info/RECORD"))
    text = record.read_text()
    try:
        record.write_text(re.sub(r"^(torch/mps/__init__.py,sha256=)\w", r"\g<1>-", text, flags=re.MULTILINE))
        with pytest.raises(ForkToolError, match="torch/mps/__init__.py of .* is not that of"):
            lay_python(made.places, made.pin)
    finally:
        record.write_text(text)
