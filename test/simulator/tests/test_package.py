"""Tests of the package that brings the device: preload, runner, control."""

from __future__ import annotations

import inspect
import linecache
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, TYPE_CHECKING

import pytest
import torch

import mps_simulator
from mps_simulator._build import built_for_tests, read_build, SimulatorError

if TYPE_CHECKING:
    from collections.abc import Callable

SIMULATOR = Path(__file__).resolve().parents[1]


def run(
    *arguments: str, environment: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs this interpreter without the settings of this process."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MPS_SIMULATOR")}
    inherited["PYTHONPATH"] = str(SIMULATOR)
    return subprocess.run(
        [sys.executable, *arguments],
        env={**inherited, **(environment or {})},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
    )


ADD = "import torch; print((torch.ones(4, device='mps') + 1).tolist())"


def test_device_is_available() -> None:
    assert torch.backends.mps.is_built()
    assert torch.backends.mps.is_available()
    assert torch.device("mps").type == "mps"
    assert (torch.ones(4, device="mps") + 1).tolist() == [2.0] * 4


def test_without_the_simulator_there_is_no_device() -> None:
    result = run("-c", "import torch; print(torch.backends.mps.is_available())")
    assert result.stdout.strip() == "False", result.stderr


def test_script_with_arguments(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"import sys; {ADD}; print(sys.argv, __name__)")
    result = run("-m", "mps_simulator", str(script), "-m", "--flag")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "[2.0, 2.0, 2.0, 2.0]",
        f"{[str(script), '-m', '--flag']} __main__",
    ]


IN_A_CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {ADD!r}])"


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (("-m", "mps_simulator", "-c", ADD), {}),
        (("-m", "mps_simulator", "-m", "some_module"), {}),
        (("-m", "mps_simulator", "-c", IN_A_CHILD), {}),
        (("-c", IN_A_CHILD), {"MPS_SIMULATOR": "1"}),
        (("-c", f"import mps_simulator; mps_simulator.install(); {ADD}"), {}),
    ],
)
def test_ways_to_run(tmp_path: Path, words: tuple[str, ...], environment: dict[str, str]) -> None:
    (tmp_path / "some_module.py").write_text(ADD)
    result = run(*words, environment=environment, cwd=tmp_path)
    assert "[2.0" in result.stdout, result.stderr


def test_install_after_torch_is_refused() -> None:
    result = run("-c", "import torch, mps_simulator; mps_simulator.install()")
    assert result.returncode != 0
    assert "torch is already imported" in result.stderr


def test_missing_build_is_one_sentence(tmp_path: Path) -> None:
    result = run("-m", "mps_simulator", "-c", ADD, environment={"MPS_SIMULATOR_BUILD": str(tmp_path)})
    assert result.returncode != 0
    assert result.stderr.strip().splitlines() == [
        f"error: the simulator is not built in {tmp_path}: run `make simulator`"
    ]


def test_what_only_tests_run_is_missing_or_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPS_SIMULATOR_BUILD", str(tmp_path))
    library, source = tmp_path / "lib.so", tmp_path / "cases.mm"
    source.touch()
    with pytest.raises(SimulatorError, match=r"lib\.so is not built: run `make simulator TESTS=1`$"):
        built_for_tests("lib.so", [source])
    library.touch()
    assert built_for_tests("lib.so", [source]) == library
    os.utime(library, (0, 0))
    with pytest.raises(SimulatorError, match=r"lib\.so is older than .*cases\.mm: run `make simulator TESTS=1`$"):
        built_for_tests("lib.so", [source])


def test_no_program_is_a_usage_error() -> None:
    result = run("-m", "mps_simulator", "--null-mode")
    assert result.returncode == 2
    assert "no program given" in result.stderr


def test_exit_status_of_the_program() -> None:
    assert run("-m", "mps_simulator", "-c", "raise SystemExit(7)").returncode == 7


def test_simulated_version() -> None:
    code = (
        "import platform, torch, mps_simulator;"
        "print(platform.mac_ver()[0], mps_simulator.macos_version(),"
        "torch.backends.mps.is_macos_or_newer(15, 0))"
    )
    assert run("-m", "mps_simulator", "-c", code).stdout.strip() == "15.2 (15, 2) True"
    result = run("-m", "mps_simulator", "--macos", "14.5", "-c", code)
    assert result.stdout.strip() == "14.5 (14, 5) False"


def test_simulated_gpu_family() -> None:
    code = "import os, torch; print(os.environ.get('MPS_SIMULATOR_GPU_FAMILY', 'as always'))"
    assert run("-m", "mps_simulator", "-c", code).stdout == "as always\n"
    assert run("-m", "mps_simulator", "--gpu-family", "9", "-c", code).stdout == "9\n"
    result = run("-m", "mps_simulator", "-c", ADD, environment={"MPS_SIMULATOR_GPU_FAMILY": "10"})
    assert "MPS_SIMULATOR_GPU_FAMILY=10 is none of 7, 8 and 9, ignored" in result.stderr


def test_order_on_the_gpu_is_watched_unless_told_otherwise() -> None:
    code = "import os; print(os.environ.get('MPS_SIMULATOR_ORDER', 'as always'))"
    assert run("-m", "mps_simulator", "-c", code).stdout == "as always\n"
    assert run("-m", "mps_simulator", "--no-order", "-c", code).stdout == "0\n"


def encoded_graphs() -> int:
    """Returns how often an MPSGraph was run since the last reset."""
    counts = mps_simulator.counters()
    return sum(count for name, count in counts.items() if name.startswith("-[MPSGraph encode"))


def test_counters_count_and_reset() -> None:
    x = torch.ones(8, device="mps")
    (x + 1).cpu()
    mps_simulator.reset_counters()
    assert mps_simulator.counters() == {}
    (x + 1).cpu()
    once = encoded_graphs()
    assert once > 0
    (x + 1).cpu()
    assert encoded_graphs() == 2 * once


# The base's has no graphs, as far as a type checker can see.
mps: Any = torch.mps


@pytest.mark.skipif(not hasattr(mps, "MPSGraph"), reason="this checkout has no graph capture")
def test_replays_wake_no_thread() -> None:
    a = torch.randn(8, 8, device="mps")
    graph = mps.MPSGraph()
    with mps.graph(graph):
        a.add_(1).mul_(0.5)
    with mps_simulator.null_mode():
        # The first replays start the thread and let it look for handlers by itself.
        for _ in range(10):
            graph.replay()
        torch.mps.synchronize()
        before = mps_simulator.handler_wakes()
        # Fewer than the 256 waiting handlers that wake the thread in any case.
        for _ in range(200):
            graph.replay()
        wakes = mps_simulator.handler_wakes() - before
        torch.mps.synchronize()
    # The thread waits to be woken after 200 ms without a handler, which a loaded machine may take.
    assert wakes < 20


def test_delay_must_not_be_negative() -> None:
    with pytest.raises(ValueError, match="negative"):
        mps_simulator.set_delay(-1)


FORK = """
import os, sys, torch, mps_simulator
used = sys.argv[1:] == ["used"]
if used and torch.backends.mps.is_available():  # upstream marks the parent when it is asked
    x = torch.ones(4, device="mps") + 1
    torch.mps.synchronize()
if os.fork() == 0:
    torch.manual_seed(3)
    print(torch.mps._is_in_bad_fork(), (torch.ones(2) + 1).tolist())
    ones = lambda: torch.ones(3, device="mps").tolist()
    works = (lambda: x + 1, lambda: x.cpu(), ones, torch.mps.synchronize, mps_simulator.counters)
    for work in works if used else [ones]:
        try:
            print(work())
        except RuntimeError as error:
            print(str(error).splitlines()[0])
    x = None
    sys.stdout.flush()
    os._exit(7)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
print(torch.mps._is_in_bad_fork(), (x + 1).tolist() if used else None)
"""


def test_use_after_fork_is_refused() -> None:
    """The child learns so by an exception: nothing aborts it."""
    result = run("-m", "mps_simulator", "-c", FORK, "used")
    assert result.returncode == 0, result.stdout + result.stderr
    host, *child, counters, parent = result.stdout.splitlines()
    assert (host, parent) == ("True [2.0, 2.0]", "False [3.0, 3.0, 3.0, 3.0]")
    assert len(child) == 4
    for line in child:
        assert line.startswith("Metal validation (simulator): ")
        assert "cannot be used in the child" in line
    assert "does not survive fork()" in counters
    assert "terminate" not in result.stderr


def test_device_first_used_in_a_forked_child_works() -> None:
    result = run("-m", "mps_simulator", "-c", FORK)
    assert result.stdout.splitlines() == ["False [2.0, 2.0]", "[1.0, 1.0, 1.0]", "False None"], result.stderr


def test_generator_and_storage_constructors() -> None:
    assert torch.Generator("mps").device.type == "mps"
    assert torch.Generator(device=torch.device("mps")).device.type == "mps"
    assert torch.Generator().device.type == "cpu"
    storage = torch.UntypedStorage(16, device="mps")  # type: ignore[no-untyped-call]
    assert storage.device.type == "mps" and storage.nbytes() == 16
    assert torch.UntypedStorage(16).device.type == "cpu"  # type: ignore[no-untyped-call]
    with pytest.raises(RuntimeError):
        torch.Generator("no such device")


@pytest.mark.parametrize("function", [torch.mps.synchronize, torch.optim.Optimizer.step, torch.nn.Linear.forward])
def test_python_modules_come_from_the_checkout_under_their_paths_in_a_wheel(function: Callable[..., Any]) -> None:
    build = read_build()
    path = Path(inspect.getfile(function))
    assert path.is_relative_to(build.wheel)
    source = (build.checkout / "torch" / path.relative_to(build.wheel)).read_text()
    assert inspect.getsource(function) in source
    linecache.checkcache()
    assert "".join(linecache.getlines(str(path))) == source


def test_complaints_are_known_whoever_caught_them() -> None:
    mps_simulator.forget_raised_errors()
    assert mps_simulator.raised_errors() == {}
    (torch.ones(4, device="mps") + 1).sum().item()
    assert mps_simulator.raised_errors() == {}
    for _ in range(2):
        with pytest.raises(RuntimeError, match="at least one byte"):
            torch.histogram(torch.ones(0, device="mps"), 3)
    ((complaint, count),) = mps_simulator.raised_errors().items()
    assert complaint.startswith("violation: Metal validation (simulator): -[MTLDevice newBufferWithLength:options:]:")
    assert count == 2
    mps_simulator.forget_raised_errors()
    assert mps_simulator.raised_errors() == {}


def test_files_that_the_readme_names_exist() -> None:
    readme = (SIMULATOR / "README.md").read_text()
    names = set(re.findall(r"`((?:graph|tests|glue|metal|shader|include|cmake|performance_shaders)/[\w/.]*)`", readme))
    assert len(names) > 10
    for name in names:
        assert (SIMULATOR / name).exists(), name
