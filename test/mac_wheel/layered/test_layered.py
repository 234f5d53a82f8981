"""Programs on a process with two backends: that of the base, as the official wheel has it, and the patched one on top."""

import re
import subprocess
from pathlib import Path

import layered_build
import pytest
from layered_device import beyond, Outcome, planted, run, VERSION

pytestmark = pytest.mark.usefixtures("layered")

PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
CASES = (*PYTEST, "test/mac_wheel/layered/device_cases.py")
ADD = "import torch; x = torch.ones(4, device='mps') + 1; y = torch.empty(4).copy_(x); print(y.tolist())"
# What needs no capture, by whichever backend has the device.
USES = """
import torch
for device in ("cpu", "mps"):
    for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad):
        model = torch.nn.Linear(3, 2, device=device)
        optimizer, before = kind(model.parameters(), lr=0.1), model.weight.detach().clone()
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.ones(4, 3, device=device)).square().sum().backward()
            optimizer.step()
        assert (model.weight != before).all()
    one, two = torch.zeros(2, device=device), torch.ones(2, device=device)
    torch.utils.swap_tensors(one, two)
    assert (one.tolist(), two.tolist()) == ([1.0, 1.0], [0.0, 0.0])
with torch.mps.profiler.profile(), torch.profiler.profile():
    torch.ones(4, device="mps").exp()
assert not torch.mps.is_current_stream_capturing()
event = torch.mps.Event()
event.record()
event.synchronize()
"""
CAPTURE = """
import torch
x = torch.zeros(4, device='mps')
graph = torch.mps.MPSGraph()
with torch.mps.graph(graph):
    y = x * 2 + 1
x.fill_(3)
graph.replay()
print(y.tolist())
"""


def good(outcome: Outcome) -> Outcome:
    assert outcome.status == 0, outcome.output[-4000:] + outcome.errors[-4000:]
    return outcome


def only_patched(outcome: Outcome, *allowed: str) -> None:
    """Every process of the program had the patched backend in charge, and ran nothing of the official one."""
    assert outcome.told and all(one["in charge"] for one in outcome.told)
    assert all(one["trouble"] is None for one in outcome.told)
    assert any(one["patched"] for one in outcome.told)
    assert beyond(outcome.reached, *allowed) == []


# The patched backend has the device.


def test_capture() -> None:
    outcome = good(run(["-c", CAPTURE]))
    assert outcome.output.strip() == "[7.0, 7.0, 7.0, 7.0]"
    only_patched(outcome)
    assert "Overriding" not in outcome.errors


def test_uses_of_the_device() -> None:
    """31: no work reaches the official backend."""
    only_patched(good(run(CASES)), *VERSION)


# Neither a slow GPU nor another macOS changes which backend has the device; other suites run the cases there.
FILES = [
    f"test_mps_{name}.py"
    for name in "graph graph_pool executable_cache graph_executables graphed_callables graph_errors "
    "graph_parity graph_processes aoti_shim".split()
]


def test_capture_cases() -> None:
    words = [*PYTEST, "-c", "/dev/null", "--rootdir", ".", "--noconftest", *FILES]
    outcome = good(run(words, directory=layered_build.CHECKOUT / "test"))
    only_patched(outcome, *VERSION)


def test_upstreams_sample() -> None:
    sample = "test/simulator/sanitizers/test_mps_sample.toml"
    report = layered_build.LAYERED / "test_mps_sample.json"
    words = ["-m", "mps_simulator.run_test_mps", "--sample", sample, "--report", str(report)]
    outcome = good(run(words))
    only_patched(outcome, *VERSION)


def test_demo() -> None:
    only_patched(good(run(["test/programs/demo/run.py", "--small"])), *VERSION)


def test_caller_of_the_official_backend() -> None:
    """Work that goes past the backend in charge is not in a capture, so none begins."""
    library = layered_build.OFFICIAL / "libmps_simulator.so"
    program = f"""
import ctypes
import torch
from torch import _mps_graph_loader
assert _mps_graph_loader.trouble() is None
{CAPTURE}
ctypes.CDLL({str(library)!r})._ZN2at3mps19getCurrentMPSStreamEv()
assert "stream of the official MPS backend" in _mps_graph_loader.trouble()
try:
    with torch.mps.graph(torch.mps.MPSGraph()):
        pass
except RuntimeError as error:
    print(error)
graph.replay()
print(y.tolist())
"""
    outcome = good(run(["-c", program]))
    printed = outcome.output.splitlines()
    assert printed[0] == printed[2] == "[7.0, 7.0, 7.0, 7.0]"
    assert printed[1].startswith("torch.mps graph capture: something uses the stream of the official MPS backend")


# Or the official one has, and says why.

STOCK = "[2.0, 2.0, 2.0, 2.0]"


def only_official(outcome: Outcome, reason: str) -> None:
    """The device worked, by the official backend, and the process knew why."""
    assert good(outcome).output.strip().splitlines()[-1] == STOCK
    assert [one["in charge"] for one in outcome.told] == [False]
    assert re.search(reason, outcome.told[0]["reason"]), outcome.told[0]["reason"]
    assert outcome.told[0]["patched"] == []
    assert any("mps_copy_" in name for name in outcome.reached)


def test_it_can_be_turned_off() -> None:
    """31, 39: then all work is the official one's, and the reason is said."""
    outcome = run(["-c", USES + ADD], {"TORCH_MPS_GRAPH_DISABLE": "1"})
    only_official(outcome, "TORCH_MPS_GRAPH_DISABLE is set")
    assert "RuntimeWarning" not in outcome.errors
    outcome = run(["-c", CAPTURE], {"TORCH_MPS_GRAPH_DISABLE": "1"})
    assert outcome.status != 0 and "Error" in outcome.errors


def test_device_asked_for_before() -> None:
    """The hooks that the device is asked through are made once, by whoever asks first."""
    program = f"""
import ctypes, os
from mps_simulator import _control
from mps_simulator._build import read_build
build = read_build()
_control.load(build.library)
torch_cpu = ctypes.CDLL(str(build.wheel / "lib/libtorch_cpu.so"))
torch_cpu._ZN2at6detail11getMPSHooksEv()
{USES}{ADD}
"""
    outcome = run(["-c", program])
    only_official(outcome, "had been asked for before")
    assert re.search(r"RuntimeWarning: torch\.mps: graph capture is not available.* asked for before", outcome.errors)


def test_another_official_library(tmp_path: Path) -> None:
    where = planted(tmp_path, layered_build.LAYERED / "planted/another_official.so")
    outcome = run(["-c", USES + ADD], where=where)
    only_official(outcome, r"not the one that this library was linked with \(.*libtorch_cpu")
    assert "RuntimeWarning: torch.mps: graph capture is not available" in outcome.errors
    # A user whose warnings are errors gets torch all the same.
    assert (
        good(run(["-c", "import warnings; warnings.simplefilter('error');" + ADD], where=where)).output.strip() == STOCK
    )


def test_library_that_cannot_be_loaded(tmp_path: Path) -> None:
    (tmp_path / "none.so").write_text("no library")
    where = planted(tmp_path / "build", tmp_path / "none.so")
    outcome = run(["-c", USES + ADD], where=where)
    assert good(outcome).output.strip() == STOCK
    assert outcome.told[0]["in charge"] is False and "cannot be loaded" in outcome.told[0]["reason"]


def test_loading_alone_registers_nothing() -> None:
    """The library's constructors only take notes: all that it changes is changed by the call that may refuse."""
    program = f"""
import ctypes, os
os.environ["TORCH_MPS_GRAPH_DISABLE"] = "1"
import torch
before = [torch._C._dispatch_dump(name) for name in torch._C._dispatch_get_all_op_names()]
ctypes.PyDLL({str(layered_build.LIBRARY)!r})
assert [torch._C._dispatch_dump(name) for name in torch._C._dispatch_get_all_op_names()] == before
{USES}{ADD}
"""
    assert good(run(["-c", program])).output.strip() == STOCK


# What would be seen if a part were not taken over.


@pytest.mark.parametrize(
    ("fault", "named"),
    [("no_copy", "mps_copy_"), ("no_cross", "cross_mps_impl")],
)
def test_what_is_left_out_is_named(tmp_path: Path, fault: str, named: str) -> None:
    where = planted(tmp_path, layered_build.LAYERED / f"planted/{fault}.so")
    outcome = run([*CASES, "-k", "stubs or copies"], where=where)
    assert outcome.status == 1
    assert re.search(f"functions of the official backend ran: .*{named}", outcome.output), outcome.output[-3000:]
    assert any(named in name for name in outcome.reached)


def test_the_library_exports_its_entry_and_little_else() -> None:
    """A name that is not exported is not mixed up with the official library's of the same name."""
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", str(layered_build.LIBRARY)], capture_output=True, text=True, check=True
    )
    names = {line.split()[2] for line in listed.stdout.splitlines()}
    of_the_suite = {"torch_mps_graph_functions_run", "torch_mps_graph_forget_functions_run"}
    others = {name for name in names - of_the_suite if not name.startswith("aoti_torch_mps_")}
    assert others == {"torch_mps_graph_load"}
    symbols = subprocess.run(
        ["readelf", "-sW", str(layered_build.LIBRARY)], capture_output=True, text=True, check=True
    ).stdout
    assert " UNIQUE " not in symbols


@pytest.fixture(scope="session")
def layered() -> None:
    """The build, made or brought up to date; seconds if nothing has changed, minutes from nothing."""
    layered_build.build()
